// SPDX-License-Identifier: MIT
//
// File descriptors of a replica.
//
// A fork shares every open file with the program: its offset, and the question whether anybody
// still has it open. So before the program goes on, the replica closes everything but regular files
// and directories: a pipe's reader sees the end of file, a socket's peer its closing, an epoll set
// the removal, exactly when the program itself closes. What stays is read by position (pread), at
// an offset of the replica's own that begins with the program's at the moment of the fork.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::shadow {

// Of one open file; shared by descriptors that dup made.
struct OpenFile {
  uint64_t offset = 0;
  bool appends = false;
};

class Descriptors {
 public:
  // Of the stopped program. More descriptors than kMostKept, and none is kept: looking at each
  // would hold up the program too long.
  static Descriptors of(Tid process);

  // In the replica: closes what is not kept.
  Status close_others(ptrace::RemoteSyscalls& remote) const;

  // The open regular file behind a descriptor; null: it is something else, or was closed.
  OpenFile* find(int fd);
  // `fd` was open in the program and is not in the replica.
  bool was_closed_by_us(int fd) const;

  // The number that the program would get for a new one.
  int lowest_free() const;

  // What the replica does itself.
  void opened(int fd, bool regular, bool appends);
  void duplicated(int from, int to);
  void closed(int fd);

 private:
  static constexpr size_t kMostKept = 256;

  std::map<int, std::shared_ptr<OpenFile>> files_;
  // Ascending. In use, by the program at the fork or by the replica since; and of those, what we
  // have closed.
  std::vector<int> all_;
  std::vector<int> missing_;
};

}  // namespace shadowprof::shadow
