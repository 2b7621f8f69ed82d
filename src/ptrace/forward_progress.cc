// SPDX-License-Identifier: MIT
#include "ptrace/forward_progress.h"

#include <sys/syscall.h>

#include <utility>

#include "machine/same_place.h"

namespace shadowprof::ptrace {

namespace {

// A handler may not return, or work for long.
constexpr unsigned kMostCalls = 64;

}  // namespace

void ForwardProgress::look(Tracee thread, const WaitStatus& status, const Registers& registers) {
  if (holding_) end_hold(thread, status, registers);
  if (status.kind() == WaitStatus::Kind::syscall_stop) {
    if (wants_calls()) look_at_call(thread, registers);
  } else if (status.kind() == WaitStatus::Kind::signal_stop) {
    look_at_signal(registers);
  }
}

void ForwardProgress::end_hold(Tracee thread, const WaitStatus& status,
                               const Registers& registers) {
  holding_ = false;
  (void)thread.set_signal_mask_if_alive(own_mask_);
  hold_again_ = status.is_event(StopEvent::stop) && machine::same_place(registers, last_) &&
                !count_.has_run(thread.tid()) && count_.lengthen();
  if (!hold_again_) count_.end_moments();
}

// rt_sigreturn has loaded the program's registers at its exit stop, and its mask.
void ForwardProgress::look_at_call(Tracee thread, const Registers& registers) {
  Tracee::SyscallStopInfo info;
  if (!thread.get_syscall_stop_if_alive(info)) return;
  if (handler_ == Handler::returns && info.which == Tracee::SyscallStop::exit) {
    handler_ = Handler::has_returned;
    last_ = registers;
  } else if (info.which == Tracee::SyscallStop::entry && info.nr == SYS_rt_sigreturn) {
    handler_ = Handler::returns;
  } else if (++calls_ > kMostCalls) {
    handler_ = Handler::none;
  }
}

void ForwardProgress::look_at_signal(const Registers& registers) {
  // Who is in the same place again may have made that call anew.
  count_.note(machine::same_place(registers, last_) && !registers.call_is_cut_short());
  last_ = registers;
  handler_ = Handler::none;
}

// A signal that is ignored is blocked from here on, too: the kernel puts it back into its queue.
std::optional<std::chrono::microseconds> ForwardProgress::begin_hold(Tracee thread, Fate fate) {
  const bool again = std::exchange(hold_again_, false);
  if (is_in_storm() && fate == Fate::handled) {
    handler_ = Handler::runs;
    calls_ = 0;
    return std::nullopt;
  }
  const bool is_ignored = is_in_storm() && fate == Fate::ignored;
  const bool has_returned = fate == Fate::no_signal && (handler_ == Handler::has_returned || again);
  if (!is_ignored && !has_returned) return std::nullopt;
  handler_ = Handler::none;
  if (!thread.get_signal_mask_if_alive(own_mask_) ||
      !thread.set_signal_mask_if_alive(hold_signals(own_mask_)))
    return std::nullopt;
  holding_ = true;
  count_.begins(thread.tid());
  return count_.moment();
}

}  // namespace shadowprof::ptrace
