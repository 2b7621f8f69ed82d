// SPDX-License-Identifier: MIT
//
// Forward progress when signals come faster than we deliver them.
//
// Delivering a signal takes us a few ptrace stops, while another process sends the next one in a
// microsecond. Then one is pending whenever a handler returns, the kernel delivers it at once, and
// the program never executes an instruction of its own. So a thread that was interrupted again and
// again in the same place runs for a moment after its handler has returned, with what others send
// kept back:
//
//   - It stays in the kernel's queues, complete and in order; only the thread's mask changes.
//   - The program cannot see the mask, nor sleep under it: every system call comes to us meanwhile,
//     enters the kernel, and has the program's own mask before its work begins. What is pending
//     then interrupts it as if it had been sent just now. So a call, too, is progress.
//   - Without a call, the moment ends when the thread has executed something, by an interrupt.
//
// That is decided by real time, so it must not be where threads take turns: nobody sends while the
// thread has its turn but those outside of the program. What its own threads have sent has an end.
#include <unistd.h>

#include <algorithm>

#include "inject/engine.h"
#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

// A hold takes longer than a delivery: so many of these in one place make a storm, and after that
// so many handlers return into a hold.
constexpr unsigned kSamePlaces = 8;
constexpr unsigned kStormHandlers = 16;
constexpr unsigned kMomentUs = 40;
// A thread may have to wait for a processor: each further round is twice as long.
constexpr unsigned kMaxRounds = 8;

bool same_place(const ptrace::Registers& a, const ptrace::Registers& b) {
  return a.rip == b.rip && a.rsp == b.rsp && a.rax == b.rax && a.rcx == b.rcx && a.rdx == b.rdx &&
         a.rsi == b.rsi && a.rdi == b.rdi && a.rbx == b.rbx && a.rbp == b.rbp;
}

// Where threads take turns, the engine's clock says when timers expire (virtual_timers.h).
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

// Children are as many as the program makes.
bool Engine::is_from_outside(const siginfo_t& info) const {
  if (info.si_signo == SIGCHLD || is_of_timer(info)) return false;
  const bool names_sender = info.si_code == SI_USER || info.si_code == SI_TKILL ||
                            info.si_code == SI_QUEUE;
  return !names_sender || std::ranges::none_of(guests_.processes, [&](const auto& entry) {
    return own_id_of(*entry.second) == Tid(info.si_pid);
  });
}

// A signal that somebody sent is about to get its handler; `regs` are the guest's.
void Engine::note_interruption(GuestThread& t, const Registers& regs, const siginfo_t& info) {
  if (takes_turns() && !is_from_outside(info)) return;
  t.same_places = same_place(regs, t.returned_to) ? t.same_places + 1 : 0;
  if (t.same_places >= kSamePlaces) {
    t.storm = kStormHandlers;
  } else if (t.storm != 0) {
    t.storm--;
  }
}

void Engine::begin_hold(GuestThread& t) {
  if (!t.tracee.set_signal_mask_if_alive(ptrace::hold_signals(t.blocked))) return;
  counts_.holds++;
  t.holding = true;
  t.hold_rounds = 0;
  t.slot->trap_all_calls(true);
}

void Engine::end_hold(GuestThread& t) {
  t.holding = false;
  if (t.slot) t.slot->trap_all_calls(false);
  (void)t.tracee.set_signal_mask_if_alive(t.blocked);
}

// After the thread was resumed with the registers `start`; it may be gone.
void Engine::run_for_a_moment(Tid tid, const Registers& start) {
  const auto it = guests_.threads.find(tid);
  if (it == guests_.threads.end() || !it->second->holding) return;
  it->second->hold_start = start;
  ::usleep(kMomentUs << it->second->hold_rounds);
  (void)it->second->tracee.interrupt_if_alive();
}

// The interrupt's stop.
void Engine::on_moment_over(GuestThread& t) {
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return;
  const bool has_run = !same_place(regs, t.hold_start);
  if (has_run || t.hold_rounds == kMaxRounds) {
    end_hold(t);
    return resume(t);
  }
  t.hold_rounds++;
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
