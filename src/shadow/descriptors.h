// SPDX-License-Identifier: MIT
//
// File descriptors of a replica: none, at first.
//
// A descriptor that a replica holds keeps the program's file open: a pipe's reader would not see
// the end of file, a socket's peer not its closing, an epoll set would report what is closed, a
// lock would live on. So a replica never has one of them: it is cloned with CLONE_FILES, and leaves
// the common table by close_range(2) with CLOSE_RANGE_UNSHARE, which copies nothing.
//
// What is remembered of the stopped program is which descriptors it had, and of regular files and
// directories what they were and how far they had been read. When the replica first uses one, the
// file is opened anew, with an offset of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "kernel/user_faults.h"
#include "ptrace/remote_syscall.h"
#include "shadow/own_files.h"

namespace shadowprof::shadow {

// Where a process's descriptor is found in /proc.
std::string link_to(Tid process, int fd);

// An open file of the replica's; shared by descriptors that dup made.
struct OpenFile {
  uint64_t offset = 0;
  bool directory = false;
  bool own = false;  // opened by the replica itself, not by the program
  // What it is in the program.
  dev_t device = 0;
  ino_t inode = 0;
  FileId id() const { return {device, inode}; }
  // What it is in the replica, if that has made or emptied it. The kernel keeps its offset then.
  std::shared_ptr<OwnFile> made = nullptr;
};

class Descriptors {
 public:
  // For the stopped program. Where there are more descriptors than kMostKnown, only the numbers are
  // known: looking at each would hold up the program too long.
  static Descriptors of(Tid process);
  // In the replica, before anything else.
  static Status leave_table(ptrace::RemoteSyscalls& remote);

  // The program has it and the replica does not. May still be opened.
  bool is_missing(int fd) const;
  // Opens it in the replica, if it is a file that the program has still open, or had in vain, and
  // on which it has no lease, which that would break.
  bool open_missing(ptrace::RemoteSyscalls& remote, int fd);
  // Whether the program may have a lease on a file of that number, whatever file system it is of.
  bool may_have_leased(ino_t inode) const;
  // The regular file or directory behind a descriptor that is not missing; null: something else.
  OpenFile* find(int fd);
  // The same, missing or not.
  OpenFile* known(int fd);

  // What its known descriptors say (kernel/user_faults.h).
  kernel::UserFaults user_faults() const { return user_faults_; }

  // One of these was opened for reads past the page cache (kernel/direct_reads.h).
  bool reads_directly() const { return reads_directly_; }

  // The number that the program would get for a new one.
  int lowest_free(int from = 0) const;

  // What the replica does itself.
  void opened(int fd, std::shared_ptr<OpenFile> file);
  // The program got it meanwhile, and the replica with it, by name.
  void appeared(int fd);
  void duplicated(int from, int to);
  void closed(int fd);
  void closed_range(uint32_t first, uint32_t last);

 private:
  static constexpr size_t kMostKnown = 256;

  std::shared_ptr<OpenFile> already(int fd, const OpenFile& file) const;

  Tid program_;
  kernel::UserFaults user_faults_{};
  bool reads_directly_ = false;
  std::map<int, std::shared_ptr<OpenFile>> files_;
  std::vector<int> used_;     // ascending: the program's at the fork, and the replica's
  std::vector<int> missing_;  // ascending
};

}  // namespace shadowprof::shadow
