// SPDX-License-Identifier: MIT
//
// Signals of the program: the kernel does the work, with the guest's own registers.
#include <fmt/format.h>
#include <ucontext.h>

#include <cstddef>

#include "base/log.h"
#include "inject/engine.h"
#include "inject/guest_registers.h"
#include "inject/guest_signals.h"
#include "inject/guest_stop.h"
#include "inject/mend_pointer.h"
#include "inject/native_insn.h"
#include "inject/pushed_flags.h"
#include "inject/sequence_watch.h"
#include "inject/signal_storm.h"
#include "kernel/proc.h"
#include "ptrace/default_action.h"
#include "ptrace/deliver.h"

namespace shadowprof::inject {
namespace {

enum class Disposition { handler, nothing, stop, death, untraced_death, unknown };

Disposition default_of(int signal) {
  switch (ptrace::default_action(signal)) {
    case ptrace::DefaultAction::none:
    case ptrace::DefaultAction::go_on:
      return Disposition::nothing;
    case ptrace::DefaultAction::stop:
      return Disposition::stop;
    case ptrace::DefaultAction::death:
      return Disposition::death;
  }
  return Disposition::unknown;
}

Disposition disposition_of(const GuestThread& t, int signal, bool synchronous) {
  if (signal == SIGKILL || signal == SIGSTOP) return default_of(signal);
  const auto status = kernel::read_status(t.tracee.tid());
  if (!status) return Disposition::unknown;
  const uint64_t bit = ptrace::mask_of(signal);
  if (status->caught & bit) return Disposition::handler;
  const bool is_init = status->is_namespace_init();
  if (synchronous) return is_init ? Disposition::untraced_death : Disposition::death;
  return is_init || (status->ignored & bit) ? Disposition::nothing : default_of(signal);
}

// Calls that wait with a mask of their own (sigsuspend, ppoll, ...) let in what the program blocks.
// ptrace tells the mask that comes back behind the call; /proc tells the one in force, by which the
// kernel delivers (kernel/ptrace.c, PTRACE_GETSIGMASK; kernel/signal.c ptrace_signal).
bool is_let_in_by_call(const GuestThread& t, const ptrace::Registers& regs, int signal) {
  ptrace::SignalMask behind = 0;
  if (!regs.in_syscall() || !t.tracee.get_signal_mask_if_alive(behind)) return false;
  if (!(behind & ptrace::mask_of(signal))) return false;
  const auto status = kernel::read_status(t.tracee.tid());
  return status && !(status->blocked & ptrace::mask_of(signal));
}

// Right behind the return address, at the top of the handler's stack.
struct SignalFrame {
  uint64_t return_address;
  ucontext_t context;
};

// A step makes the kernel set the trap flag, and clear it in the frame that it builds, but for when
// the interrupted instruction is a popf: then it believes that the program has set it
// (arch/x86/kernel/step.c is_setting_trap_flag).
void clear_saved_trap_flag(ptrace::RemoteMemory& memory, const ptrace::Registers& at_handler) {
  const GuestAddr saved = at_handler.sp() + offsetof(SignalFrame, context.uc_mcontext.gregs) +
                          REG_EFL * sizeof(greg_t);
  const auto eflags = memory.read_value<uint64_t>(saved);
  if (!eflags || !(*eflags & machine::flags::kTrap)) return;
  (void)memory.write_value(saved, *eflags & ~machine::flags::kTrap);
}

void mend_frame(const emu::CodeCache& cache, ptrace::RemoteMemory& memory, GuestAddr frame) {
  const auto area = memory.read_value<uint64_t>(
      frame + offsetof(SignalFrame, context.uc_mcontext.fpregs));
  if (area && *area != 0) mend_saved_area(cache, GuestAddr(*area), memory);
}

}  // namespace

// The thread is at a stop from which `sent` can be delivered. `regs` are its registers, of the
// context that t.in_engine tells.
void Engine::deliver(GuestThread& t, Registers& regs, const siginfo_t& sent) {
  const siginfo_t info = time_ ? ProgramTimers::as_the_kernel_sends(sent) : sent;
  if (met_breakpoint(t, info, regs)) return ignore_breakpoint(t, regs);
  records_.counts.signals++;
  if (t.holding) end_hold(t);
  refresh_mask(t);
  const int signal = info.si_signo;
  const bool synchronous = ptrace::is_synchronous(ptrace::cause_of(info, regs));
  const bool is_blocked =
      (t.blocked & ptrace::mask_of(signal)) != 0 && !is_let_in_by_call(t, regs, signal);
  if (is_blocked && !synchronous) return leave_pending(t, regs, info);
  const Disposition disposition = disposition_of(t, signal, synchronous);
  if (is_blocked && disposition == Disposition::handler) return drop_handler(t, info);
  if (is_blocked && !t.tracee.set_signal_mask_if_alive(t.blocked & ~ptrace::mask_of(signal)))
    return;
  switch (disposition) {
    case Disposition::nothing:
      if (t.sleep.conceal(t.tracee, regs, signal) && !t.tracee.set_registers_if_alive(regs)) return;
      if (t.in_engine && (t.cut.is_still_cut(regs) || ptrace::CutCall::is_cut(t.tracee, regs))) {
        t.cut.begin(regs);
        if (!t.tracee.set_registers_if_alive(regs)) return;
      } else if (t.in_engine && note_ignored(t, regs, info)) {
        // The signal has done all that it does.
        return to_guest(t, regs) ? enter_for_a_moment(t, regs) : void();
      }
      [[fallthrough]];
    case Disposition::stop:
      // No frame is built, so the thread may stay where it is. An interrupted system call restarts
      // in the gateway.
      if (!t.in_engine && !has_trap_flag(regs)) {
        t.deferred.push_back(info);
        return enter(t, regs);
      }
      t.trapped = !t.in_engine;
      // What does nothing is taken away: for a handler that another thread sets just now the kernel
      // would build a frame from these registers. What SIGCONT does was done when it was sent.
      return resume(t, disposition == Disposition::stop ? signal : 0);
    case Disposition::death:
      // The core file shall show the guest's registers.
      if (!to_guest(t, regs) || !t.tracee.set_registers_if_alive(regs)) return;
      return resume(t, signal);
    case Disposition::untraced_death: return die_untraced(t, regs, ptrace::cause_of(info, regs));
    case Disposition::handler: return deliver_to_handler(t, regs, info);
    case Disposition::unknown: return leave_with_signal(t, regs, info);
  }
}

// Where threads take turns, those of the program send as many as its code says (signal_storm.h).
bool Engine::may_be_storm(const siginfo_t& info) const {
  return !takes_turns() || is_from_outside(info, guests_);
}

// True: it does not get on. A call that the kernel restarts gets on by itself.
bool Engine::note_ignored(GuestThread& t, const Registers& regs, const siginfo_t& info) const {
  if (!may_be_storm(info)) return false;
  note_interruption(t, regs);
  t.returned_to = regs;
  return t.storm.is_storm() && !regs.restart_pending();
}

// An instruction that raises what the program blocks kills it, handler or not (kernel/signal.c
// force_sig_info_to_task). The kernel could not know where the instruction was stepped (StepMask).
void Engine::drop_handler(GuestThread& t, const siginfo_t& info) {
  t.process->actions[static_cast<size_t>(info.si_signo)] = {};
  if (!set_action(t, info.si_signo)) return;
  t.deferred.insert(t.deferred.begin(), info);
  redeliver_deferred(t);
}

// The thread is gone, or we are short of descriptors or memory. The kernel knows what to do.
void Engine::leave_with_signal(GuestThread& t, Registers& regs, const siginfo_t& info) {
  if (!to_guest(t, regs) || !t.tracee.set_registers_if_alive(regs)) return;
  t.deferred.insert(t.deferred.begin(), info);
  go_native(*t.process, fmt::format("what it does with signal {} cannot be read", info.si_signo));
}

// What kills the first process of a PID namespace natively does not where it is traced. It goes on
// without us, and does it again.
void Engine::die_untraced(GuestThread& t, Registers& regs, ptrace::SignalCause cause) {
  if (!to_guest(t, regs)) return;
  GuestProcess& process = *t.process;
  ptrace::raise_again(cause, process.space->code().memory(), regs);
  if (options_.bursts != nullptr) return let_out(t, regs);
  const Tid tid = t.tracee.tid();
  let_go(t, regs, 0);
  spaces_.release(t, trace::EndReason::exited);
  guests_.threads.erase(tid);
  spaces_.leave_unused(process);
}

// What the program blocks was let through for an instruction's sake: while we stepped (StepMask),
// or by force_sig, for a trap of ours that met it in the queue. The kernel finds it blocked, and
// takes it back as it is.
void Engine::leave_pending(GuestThread& t, Registers& regs, const siginfo_t& info) {
  if (!t.in_engine) {
    t.deferred.push_back(info);
    return enter(t, regs);
  }
  ptrace::SignalMask mask = 0;
  if (!t.tracee.get_signal_mask_if_alive(mask)) return;
  if (!(mask & ptrace::mask_of(info.si_signo))) {
    repair_signal_state(t, info.si_signo);
    t.deferred.insert(t.deferred.begin(), info);
    return redeliver_deferred(t);
  }
  if (t.deferred.empty()) return resume(t, info.si_signo);
  // It executes nothing before the interrupt stops it again.
  if (!t.tracee.interrupt_if_alive()) return;
  resume(t, info.si_signo);
  const Tid tid = t.tracee.tid();
  const auto stop = stops_.wait_for_stop(tid);
  if (!stop) return;
  if (!stop->is_trap()) return dispatch(tid, *stop);  // another signal, or its end
  redeliver_deferred(t);
}

// The instruction at `before` has executed at its own address, unexpectedly.
void Engine::note_uncounted_step(GuestThread& t, const Registers& before, Registers& after) {
  ptrace::RemoteMemory& memory = t.process->space->code().memory();
  if (look_at_insn(memory, before).shows_step) hide_pushed_trap_flag(memory, after.sp());
  note_announced_sequence(t);
  abort_announced_sequence(t, after);
  note_native(t, nullptr);
}

void Engine::deliver_to_handler(GuestThread& t, Registers& regs, const siginfo_t& info) {
  siginfo_t seen = info;
  const emu::CodeCache& cache = t.process->space->cache();
  const ptrace::SignalCause cause = ptrace::cause_of(info, regs);
  const bool synchronous = ptrace::is_synchronous(cause);
  const cache::Stop what = decode_stop(t, regs, info);
  if (what.kind == cache::Stop::Kind::read_ahead) {
    take_guest_state(t, regs, what.at);
    return native_step(t, regs, nullptr);
  }
  if (what.kind == cache::Stop::Kind::unreadable_code) {
    // What happens then is the business of the guest's address.
    const FragmentId fragment = what.at.fragment;
    regs.rcx = t.slot->state().spill_rcx;
    regs.rdx = t.slot->state().spill_rdx;
    take_guest_state(t, regs, {.kind = emu::CachePosition::Kind::stale, .fragment = fragment});
    t.process->space->cache().drop(fragment);
    return native_step(t, regs, nullptr);
  }
  if (!to_guest(t, regs) || !t.tracee.set_registers_if_alive(regs)) return;
  if (!synchronous && may_be_storm(info)) note_interruption(t, regs);
  // SIGILL, SIGFPE and SIGTRAP name the instruction.
  const auto address = reinterpret_cast<uint64_t>(seen.si_addr);
  if (synchronous && cache.contains(address)) seen.si_addr = reinterpret_cast<void*>(regs.rip);
  if (!t.tracee.set_siginfo_if_alive(seen)) return;
  const bool guest_traps = (regs.eflags & machine::flags::kTrap) != 0;
  const Registers before = regs;

  // Stepping into a handler stops before its first instruction, through ptrace_notify and not
  // through a signal (kernel/signal.c signal_setup_done).
  if (!t.tracee.step_if_alive(info.si_signo)) return;
  const auto stop = stops_.wait_for_stop(t.tracee.tid());
  if (!stop || !t.tracee.get_registers_if_alive(regs)) return;
  ptrace::RemoteMemory& memory = t.process->space->code().memory();
  siginfo_t met{};
  const bool is_signal = stop->kind() == ptrace::WaitStatus::Kind::signal_stop;
  if (is_signal && !t.tracee.get_siginfo_if_alive(met)) return;
  if (!is_signal || !ptrace::is_step_into_handler(met)) {
    // No frame could be made (SIGSEGV), or another signal came first. Or another thread has taken
    // the handler away, and the program's next instruction has executed.
    const bool has_stepped = is_signal && !guest_traps &&
                             ptrace::cause_of(met, regs) == ptrace::SignalCause::single_step;
    if (is_signal && !has_stepped) return deliver(t, regs, met);
    if (has_stepped) note_uncounted_step(t, before, regs);
    return enter(t, regs);
  }
  if (!guest_traps) clear_saved_trap_flag(memory, regs);
  mend_frame(cache, memory, regs.sp());
  ptrace::RemoteSigaction& action = t.process->actions[static_cast<size_t>(info.si_signo)];
  if (action.flags & SA_RESETHAND) action = {};
  note_mask(t);
  records_.traces.gap(t, trace::GapReason::signal_delivered);
  enter(t, regs);
}

// The thread is exact and stopped; signals that were taken from it are given back first.
void Engine::redeliver_deferred(GuestThread& t) {
  const siginfo_t info = t.deferred.front();
  t.deferred.erase(t.deferred.begin());
  const Status brought = ptrace::bring_to_signal_stop(t.tracee, info, t.deferred);
  if (!brought) {
    if (brought.error().errno_value != ESRCH) detail("{}", brought.error().message);
    return;
  }
  Registers regs;
  if (t.tracee.get_registers_if_alive(regs)) deliver(t, regs, info);
}

}  // namespace shadowprof::inject
