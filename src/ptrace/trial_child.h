// SPDX-License-Identifier: MIT
//
// A child of our own that is to show what this host does. It may be traced by us, and stops by an
// instruction of its own then (int3): it sends itself no signal.
//
//   TrialChild child(fork());
//   if (child.is_it()) for (TrialChild::be_traced(parent);;) asm volatile("int3");
//   for (bool stops = child.await_stop(); stops; stops = child.go_on()) ...
#pragma once

#include <sys/types.h>

#include "base/types.h"

namespace shadowprof::ptrace {

class TrialChild {
 public:
  // What fork(2) or clone(2) has returned; less than 0: there is no child.
  explicit TrialChild(pid_t forked) : child_(forked) {}
  // In us: ends it. One that cannot be killed is not waited for, and has to die with us
  // (base/die_with_parent.h).
  ~TrialChild();
  TrialChild(const TrialChild&) = delete;
  TrialChild& operator=(const TrialChild&) = delete;

  bool is_it() const { return child_ == 0; }
  bool exists() const { return child_ > 0; }
  Tid tid() const { return Tid(child_); }

  // In the child of `parent`, by system calls alone: it may have our memory, and our thread-local
  // data. False: it is not traced, or we have ended. Else it ends with us.
  static bool be_traced(pid_t parent);
  // Until it stops, the first time. False: it has ended, or there is none.
  bool await_stop();
  // Lets it go on until it stops again.
  bool go_on();
  // The signal that it has stopped for.
  int stopped_for() const { return signal_; }

 private:
  pid_t child_;
  int signal_ = 0;
};

}  // namespace shadowprof::ptrace
