// SPDX-License-Identifier: MIT
//
// Running a tracee on our own behalf until a certain stop, while everything that happens to it on
// the way is kept for the program. Used by remote_syscall and deliver only.
#pragma once

#include <csignal>
#include <functional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

class QuietRun {
 public:
  // Signals that are met are appended to `deferred`.
  QuietRun(Tracee tracee, std::vector<siginfo_t>& deferred)
      : tracee_(tracee), deferred_(deferred) {}

  enum class Resume { cont, syscall };
  // Resumes, without a signal, until `wanted` says true of a stop. Before that
  // - sent signals are deferred;
  // - SIGSTOP is delivered at once: it has no handler, and its meaning to the process (and to the
  //   SIGCONT that follows) must not wait. The thread then runs on in spite of the group stop;
  // - trap stops are run through and remembered;
  // - fork and clone events are remembered and run through.
  // ESRCH: the thread dies; its report is left for the caller's wait (see wait_for_stop).
  using Wanted = std::function<bool(const WaitStatus&)>;
  Result<WaitStatus> until(Resume how, const Wanted& wanted);

  // Once, when the thread has long been waiting in the kernel, perhaps for somebody whom we have
  // stopped.
  void when_it_waits(std::function<void()> act) { when_it_waits_ = std::move(act); }

  // A trap stop was swallowed: the process may be in group stop, or somebody waits for the effect
  // of interrupt. The caller makes the thread stop that way again at the end.
  bool saw_trap() const { return saw_trap_; }
  // The child of the last fork or clone event; 0 if there was none.
  Tid child() const { return child_; }
  void forget_child() { child_ = Tid(); }

 private:
  Result<int> absorb(const WaitStatus& stop);

  Tracee tracee_;
  std::vector<siginfo_t>& deferred_;
  std::function<void()> when_it_waits_;
  bool saw_trap_ = false;
  Tid child_;
};

}  // namespace shadowprof::ptrace
