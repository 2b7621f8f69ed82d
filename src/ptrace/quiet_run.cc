// SPDX-License-Identifier: MIT
#include "ptrace/quiet_run.h"

#include "ptrace/default_action.h"
#include "ptrace/wait.h"

namespace shadowprof::ptrace {
Result<WaitStatus> QuietRun::until(Resume how, const Wanted& wanted) {
  int signal = 0;
  for (;;) {
    const bool alive =
        how == Resume::syscall ? tracee_.syscall_if_alive(signal) : tracee_.cont_if_alive(signal);
    if (!alive) return thread_is_gone(tracee_.tid());
    if (when_it_waits_ && !await_report(tracee_.tid())) std::exchange(when_it_waits_, {})();
    SP_ASSIGN(const WaitStatus stop, wait_for_stop(tracee_.tid()));
    if (wanted(stop)) return stop;
    SP_ASSIGN(signal, absorb(stop));
  }
}

// Returns the signal to resume with.
Result<int> QuietRun::absorb(const WaitStatus& stop) {
  if (stop.is_trap()) {
    saw_trap_ = true;
    return 0;
  }
  if (stop.kind() == WaitStatus::Kind::signal_stop) {
    if (stop.signal() == SIGSTOP) return SIGSTOP;
    siginfo_t info{};
    if (!tracee_.get_siginfo_if_alive(info)) return thread_is_gone(tracee_.tid());
    // To send SIGCONT takes back the stop signals that are pending (signal(7)), and by us they are.
    if (info.si_signo == SIGCONT) {
      std::erase_if(deferred_, [](const siginfo_t& pending) {
        return default_action(pending.si_signo) == DefaultAction::stop;
      });
    }
    deferred_.push_back(info);
    return 0;
  }
  if (stop.is_event(StopEvent::fork) || stop.is_event(StopEvent::clone) ||
      stop.is_event(StopEvent::vfork)) {
    uint64_t child = 0;
    if (!tracee_.get_event_message_if_alive(child)) return thread_is_gone(tracee_.tid());
    child_ = Tid(static_cast<int32_t>(child));
  }
  return 0;
}

}  // namespace shadowprof::ptrace
