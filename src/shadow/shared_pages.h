// SPDX-License-Identifier: MIT
//
// Shared mappings in a replica. A fork does not copy them: a store of the replica's would be a
// store of the program's. So those that are writable are made read-only before the replica runs; a
// store then faults, and the page is replaced by a private copy. The others stay as they are, and
// may become writable only in the program.
#pragma once

#include <vector>

#include "kernel/proc.h"
#include "ptrace/remote_memory.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::shadow {

class SharedPages {
 public:
  // Before the replica executes anything.
  Status protect(ptrace::RemoteSyscalls& remote, const std::vector<kernel::Mapping>& mappings);

  // Is a store there to be made to a copy of the page, which there is not yet?
  bool contains(GuestAddr address) const;
  // Is something of it shared memory, writable or not, or was it when the replica was made?
  bool overlaps(GuestRange range) const;
  bool has_copies(GuestRange range) const;
  // Then system calls may fail for want of a copy: the kernel makes none.
  bool has_writable() const;
  // The replica has something else there by now, or nothing.
  void forget(GuestRange range);
  // Replaces the pages of `range` that are still shared by private, writable copies. An Error:
  // the memory cannot be read (a device's).
  Status make_private(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory,
                      GuestRange range);

 private:
  Status copy_page(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory, GuestAddr page);

  struct Shared {
    GuestRange range;
    bool writable = false;  // in the program
    int protection = 0;     // of a copy
  };
  const Shared* find(GuestAddr address) const;

  std::vector<Shared> shared_;
  std::vector<GuestAddr> private_;  // pages copied, ascending
};

}  // namespace shadowprof::shadow
