// SPDX-License-Identifier: MIT
//
// Process ids of a program's own: a PID namespace, because signals, locks, futexes and /proc have
// to know the same ids as the program.
//
//   we -+- keeper: 1, as a namespace has to have a first process, with whom all others end. It
//       |          ends when we have, and nobody else is left.
//       +- the program: 2. Its parent is outside, so getppid(2) says 0, as do getpgrp(2) and
//                  getsid(2) until it makes groups and sessions of its own.
//
// /proc is mounted anew, in a mount namespace of the program's own, which sees what others mount.
// Who may not make these (CAP_SYS_ADMIN) makes a user namespace with them, in which users and
// groups other than its own have no number.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.h"

namespace shadowprof::ptrace {

class IdSpace {
 public:
  IdSpace() = default;
  // Waits a moment for the keeper. One that others keep there goes on by itself.
  ~IdSpace();
  IdSpace(const IdSpace&) = delete;
  IdSpace& operator=(const IdSpace&) = delete;

  // As fork(2), once, with all signals blocked; the child's first process ids are those above. An
  // ordinary fork where the kernel refuses them.
  pid_t fork();

  // Would this host permit it? Tries it.
  static bool is_permitted();

  // Has the child got ids of its own?
  bool is_own() const { return keeper_ > 0; }

 private:
  void end();

  pid_t keeper_ = 0;
  UniqueFd until_closed_;  // who keeps waits for that
};

}  // namespace shadowprof::ptrace
