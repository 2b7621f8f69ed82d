// SPDX-License-Identifier: MIT
//
// A file that appears whole or not at all: written under another name in the same directory, mode
// 0600, and renamed when everything reached it. What is no regular file (a terminal, a pipe that
// has a reader) is written in place; a disk is not written at all. The suffix of its name says
// whether it is compressed (compression.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "profile/file/compression.h"

namespace shadowprof::profile {

// Where symbolic links lead, so that a rename replaces the file and not the link. An Error: one is
// neither the user's own nor root's; who can make a link beside an output must not choose what is
// overwritten.
Result<std::string> target_of(const std::string& path);

// For what is there already and is no regular file; `mode` is its st_mode.
Result<UniqueFd> open_in_place(const std::string& path, unsigned mode);

class OutputFile {
 public:
  // "-" is stdout.
  static Result<OutputFile> open(const std::string& path, Effort effort = Effort::quick);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without finish(): nothing has happened

  // The first failure stays; write() after it does nothing.
  void write(std::string_view text);
  Status finish();

 private:
  OutputFile(std::string path, std::string temporary, UniqueFd fd);
  static OutputFile with_memory(OutputFile file, Effort effort);
  void flush(bool last);

  std::string path_;
  std::string temporary_;  // "" when written in place
  UniqueFd fd_;
  bool is_pipe_;
  std::unique_ptr<Compressor> compressor_;  // null: as it is
  std::string buffer_;
  int error_ = 0;
};

}  // namespace shadowprof::profile
