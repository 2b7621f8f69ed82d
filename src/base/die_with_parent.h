// SPDX-License-Identifier: MIT
//
// For children of our own: none of them outlives who made it.
#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace shadowprof {

// In a child that `parent` has just made: it gets this signal when that ends, or, where a filter
// does not permit that, goes on. False: it has ended already. Two system calls, and nothing else:
// the child may have the parent's memory.
inline bool die_with_parent(pid_t parent, int signal = SIGKILL) {
  (void)::prctl(PR_SET_PDEATHSIG, signal);
  return ::getppid() == parent;
}

}  // namespace shadowprof
