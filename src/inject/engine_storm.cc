// SPDX-License-Identifier: MIT
//
// The moment that a thread has for itself while signals come too fast (signal_storm.h).
#include <thread>

#include "inject/engine.h"
#include "inject/signal_storm.h"
#include "machine/same_place.h"

namespace shadowprof::inject {
// From guest context, with what others send kept back.
void Engine::enter_for_a_moment(GuestThread& t, Registers& regs) {
  if (begin_hold(t)) records_.counts.holds++;
  const Tid tid = t.tracee.tid();
  enter(t, regs);
  run_for_a_moment(tid, regs);
}

// After the thread was resumed with the registers `start`; it may be gone.
void Engine::run_for_a_moment(Tid tid, const Registers& start) {
  GuestThread* t = guests_.find(tid);
  if (t == nullptr || !t->holding) return;
  t->hold_start = start;
  t->storm.begins(tid);
  std::this_thread::sleep_for(t->storm.moment());
  (void)t->tracee.interrupt_if_alive();
}

// The interrupt's stop.
void Engine::on_moment_over(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return;
  const bool has_run = !machine::same_place(regs, t.hold_start) || t.storm.has_run(t.tracee.tid());
  if (has_run || !t.storm.lengthen()) {
    end_hold(t);
    return resume(t);
  }
  resume(t);
  run_for_a_moment(t.tracee.tid(), regs);
}

// In the gateway, before its system call instruction.
void Engine::make_held_call(GuestThread& t, Registers& regs) {
  bool saw_group_stop = false;
  for (;;) {
    if (!t.tracee.syscall_if_alive()) return;
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    if (!stop) return;
    if (stop->kind() == ptrace::WaitStatus::Kind::syscall_stop) break;
    siginfo_t info;
    if (stop->kind() == ptrace::WaitStatus::Kind::signal_stop) {
      if (!t.tracee.get_registers_if_alive(regs) || !t.tracee.get_siginfo_if_alive(info)) return;
      return deliver(t, regs, info);  // SIGSTOP cannot be held
    }
    // A trap is the end of the moment, which the call is, too.
    saw_group_stop = saw_group_stop || stop->kind() == ptrace::WaitStatus::Kind::group_stop;
  }
  end_hold(t);
  // A group stop that was run through is reported again this way.
  if (!saw_group_stop || t.tracee.interrupt_if_alive()) resume(t);
}

}  // namespace shadowprof::inject
