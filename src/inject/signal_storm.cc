// SPDX-License-Identifier: MIT
#include "inject/signal_storm.h"

#include <algorithm>

#include "inject/guest_signals.h"
#include "kernel/proc.h"
#include "machine/same_place.h"

namespace shadowprof::inject {
namespace {

// Where threads take turns, the engine's clock says when timers expire (fixed/virtual_timers.h).
bool is_of_timer(const siginfo_t& info) {
  const int signal = info.si_signo;
  const bool is_of_setitimer = signal == SIGALRM || signal == SIGVTALRM || signal == SIGPROF;
  return info.si_code == SI_TIMER || (info.si_code == SI_KERNEL && is_of_setitimer);
}

// By which others of its PID namespace know it.
Tid own_id_of(GuestProcess& process) {
  if (process.own_id.value == 0) {
    const auto status = kernel::read_status(process.pid);
    const bool is_told = status && status->innermost_tgid.value != 0;
    process.own_id = is_told ? status->innermost_tgid : process.pid;
  }
  return process.own_id;
}

}  // namespace

bool is_from_outside(const siginfo_t& info, const Guests& guests) {
  if (info.si_signo == SIGCHLD || is_of_timer(info)) return false;
  const bool names_sender =
      info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE;
  return !names_sender || std::ranges::none_of(guests.processes, [&](const auto& entry) {
    return own_id_of(*entry.second) == Tid(info.si_pid);
  });
}

void note_interruption(GuestThread& t, const ptrace::Registers& regs) {
  t.storm.note(machine::same_place(regs, t.returned_to));
}

bool begin_hold(GuestThread& t) {
  refresh_mask(t);
  if (!t.tracee.set_signal_mask_if_alive(ptrace::hold_signals(t.blocked))) return false;
  t.holding = true;
  t.slot->trap_all_calls(true);
  return true;
}

void end_hold(GuestThread& t) {
  t.holding = false;
  t.storm.end_moments();
  if (t.slot) t.slot->trap_all_calls(false);
  (void)t.tracee.set_signal_mask_if_alive(t.blocked);
}

}  // namespace shadowprof::inject
