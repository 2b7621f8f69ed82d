// SPDX-License-Identifier: MIT
//
// Writable shared mappings in a replica. A fork does not copy them: a store of the replica's would
// be a store of the program's. So they are made read-only before the replica runs; a store then
// faults, and the page is replaced by a private copy.
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

  bool contains(GuestAddr address) const;
  bool overlaps(GuestRange range) const;
  // Replaces the pages of `range` that are still shared by private, writable copies. An Error:
  // the memory cannot be read (a device's).
  Status make_private(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory,
                      GuestRange range);

 private:
  Status copy_page(ptrace::RemoteSyscalls& remote, ptrace::RemoteMemory& memory, GuestAddr page);

  struct Shared {
    GuestRange range;
    int protection = 0;
  };
  const Shared* find(GuestAddr address) const;

  std::vector<Shared> shared_;
  std::vector<GuestAddr> private_;  // pages copied, ascending
};

}  // namespace shadowprof::shadow
