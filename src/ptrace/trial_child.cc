// SPDX-License-Identifier: MIT
#include "ptrace/trial_child.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/die_with_parent.h"

namespace shadowprof::ptrace {

// It would be traced by whoever inherits it, and stop for good, if we had ended before.
bool TrialChild::be_traced(pid_t parent) {
  return die_with_parent(parent) && ::syscall(SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
}

bool TrialChild::await_stop() {
  if (child_ <= 0) return false;
  int status = 0;
  if (TEMP_FAILURE_RETRY(::waitpid(child_, &status, __WALL)) != child_) return false;
  if (!WIFSTOPPED(status)) child_ = -1;
  signal_ = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
  return signal_ != 0;
}

bool TrialChild::go_on() {
  return child_ > 0 && ::ptrace(PTRACE_CONT, child_, nullptr, nullptr) == 0 && await_stop();
}

TrialChild::~TrialChild() {
  if (child_ <= 0) return;
  const bool ends =
      ::kill(child_, SIGKILL) == 0 || ::ptrace(PTRACE_CONT, child_, nullptr, long{SIGKILL}) == 0;
  if (ends) (void)TEMP_FAILURE_RETRY(::waitpid(child_, nullptr, __WALL));
}

}  // namespace shadowprof::ptrace
