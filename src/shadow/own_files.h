// SPDX-License-Identifier: MIT
//
// Files that a replica makes, or empties, as it believes: nothing of that reaches a file system.
//
// What is in such a file is known from its first byte on, so that all its contents are in memory (a
// memfd): it is read, written, mapped and measured there, and is gone with the replica. What it is
// called is remembered here, and so is every other name that the replica believes it has given or
// taken away. A path that leads to one is answered from here, or the sample ends: the file system
// does not know.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace shadowprof::shadow {

// Which file it is, whoever has opened it.
using FileId = std::pair<dev_t, ino_t>;

struct OwnFile {
  UniqueFd contents;  // ours
  struct stat as {};  // to the program; size and times are those of the contents
  // False: there was something in it before, which the contents do not have.
  bool is_known = true;
  // Bytes that it is said to have had, which take no memory before they are written.
  uint64_t said = 0;
  uint64_t counted = 0;  // of what all may take, when it was last looked at
};

// A path, cut before its last name.
struct SplitPath {
  explicit SplitPath(std::string_view path);
  std::string directory;  // "." if there is none
  std::string name;
  bool is_plain;  // not empty, no "." or "..", and nothing follows
};

class OwnFiles {
 public:
  struct Place {
    FileId directory;
    std::string name;
    auto operator<=>(const Place&) const = default;
  };
  // The directory of a name that was changed where none could be found.
  static constexpr FileId kSomewhere{0, 0};

  enum class State : uint8_t {
    untouched,  // as the file system says
    made,       // a file of the replica's own
    removed,
    changed,  // something else than what the file system has there
  };
  struct Found {
    State state = State::untouched;
    std::shared_ptr<OwnFile> file;  // that was made
  };

  bool has_names() const { return !states_.empty(); }
  bool has_any() const { return has_names() || made_ != 0; }
  // No more of them: what follows would not be remembered.
  bool is_full() const;
  // Is there anything of that name, wherever? Then only find() tells.
  bool has(const std::string& name) const { return names_.contains(name); }
  // Does a path's directory go through one of the names?
  bool is_on_the_way(std::string_view directory) const;
  Found find(const Place& place) const;
  // What the replica has where the file system has another file; null: nothing.
  std::shared_ptr<OwnFile> in_place_of(FileId id) const;

  void set(const Place& place, State state, std::shared_ptr<OwnFile> file = nullptr);
  void replace(FileId id, std::shared_ptr<OwnFile> file) { replaced_[id] = std::move(file); }

  // A new one, of no bytes. Null: it cannot be had.
  std::shared_ptr<OwnFile> make();
  // May it be larger by so much, with all the others?
  bool has_room(uint64_t bytes) const;
  // It may have grown or shrunk. False: beyond the limit. What a file takes is its memory, or what
  // may be written to it by a mapping, which nobody sees.
  bool look_at_size(OwnFile& file);

 private:
  std::map<Place, Found> states_;
  std::set<std::string> names_;
  std::map<FileId, std::shared_ptr<OwnFile>> replaced_;
  size_t made_ = 0;
  uint64_t bytes_ = 0;  // counted, of all together
};

}  // namespace shadowprof::shadow
