// SPDX-License-Identifier: MIT
//
// Files that a run keeps for later ones, in a folder of the user's: $XDG_CACHE_HOME/shadowprof, or
// ~/.cache/shadowprof.
//
// Whatever is in the way is as good as no file, and nobody is told: all that is kept can be found
// out again. A folder or file that somebody else owns, or that others may write to, is left alone:
// root writes to no other user's home. Files appear whole, and only their owner may read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace shadowprof {

class CacheFolder {
 public:
  // None: nothing is found in it, and nothing is kept.
  CacheFolder() = default;
  // The user's; made, if need be.
  static CacheFolder of_user();
  // The last folder of the path is made, if need be.
  static CacheFolder at(const std::string& path);
  // One inside; made, if need be.
  CacheFolder inside(const std::string& name) const;

  bool valid() const { return fd_.valid(); }
  // Nothing: there is none, or one with more bytes than that.
  std::optional<std::string> read(const std::string& name, size_t most_bytes) const;
  void write(const std::string& name, std::string_view text) const;
  // The same for a body behind a head, which says what it is about, and before a checksum. Nothing:
  // it has another head, or is not as it was written.
  std::optional<std::string> read_body(const std::string& name, std::string_view head,
                                       size_t most_bytes) const;
  void write_body(const std::string& name, std::string_view head, std::string_view body) const;
  void remove(const std::string& name) const;
  // Removes all but so many files with so many bytes together: those that were written last.
  void keep_latest(size_t most_files, size_t most_bytes) const;

 private:
  static constexpr size_t kChecksumBytes = 4;  // CRC-32

  explicit CacheFolder(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace shadowprof
