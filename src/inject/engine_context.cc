// SPDX-License-Identifier: MIT
//
// From engine context to guest context and back.
#include "base/log.h"
#include "decoder/insn.h"
#include "inject/engine.h"
#include "inject/guest_registers.h"
#include "inject/guest_signals.h"
#include "inject/guest_stop.h"
#include "inject/mend_pointer.h"
#include "inject/native_insn.h"
#include "inject/pushed_flags.h"
#include "inject/sequence_watch.h"
#include "inject/signal_storm.h"
#include "inject/thread_state.h"
#include "ptrace/interruption.h"

namespace shadowprof::inject {

using emu::CachePosition;
using ptrace::WaitStatus;

namespace {

// While it lives, the thread's mask lets through only what its own instructions raise. Signals that
// others send stay pending in the kernel, in order and complete; so do those that are pending
// because the program blocks them, but for SIGTRAP, which every step raises: that is given back
// (deliver), as is what somebody sends just now.
class StepMask {
 public:
  explicit StepMask(ptrace::Tracee tracee) : tracee_(tracee) {
    if (!tracee_.get_signal_mask_if_alive(before_)) return;
    ptrace::SignalMask kept = before_ & ptrace::kInstructionSignals & ~ptrace::mask_of(SIGTRAP);
    if (kept != 0) {
      ptrace::SignalMask own = 0, shared = 0;
      if (!tracee_.get_pending_signals_if_alive(own) ||
          !tracee_.get_pending_signals_if_alive(shared, ptrace::Tracee::SignalQueue::process)) {
        return;
      }
      kept &= own | shared;
    }
    active_ = tracee_.set_signal_mask_if_alive(~ptrace::kInstructionSignals | kept);
  }
  ~StepMask() { restore(); }
  StepMask(const StepMask&) = delete;
  StepMask& operator=(const StepMask&) = delete;
  void restore() {
    if (active_) (void)tracee_.set_signal_mask_if_alive(before_);
    active_ = false;
  }

 private:
  ptrace::Tracee tracee_;
  ptrace::SignalMask before_ = 0;
  bool active_ = false;
};

// With four levels of page tables; with five the processor decides when it executes the branch.
bool is_canonical(GuestAddr address) {
  const auto top = static_cast<int64_t>(address.value) >> 47;
  return top == 0 || top == -1;
}

}  // namespace

void Engine::take_guest_state(GuestThread& t, Registers& regs, const CachePosition& at) {
  emu::CodeCache& cache = t.process->space->cache();
  const emu::StatePage& state = t.slot->state();
  const uint64_t cursor = regs.r15;
  t.in_engine = false;
  if (tracing()) {
    t.cursor = regs.r15;
    regs.gs_base = t.guest_gs_base;
  }
  regs.r15 = state.guest_r15;
  if (at.kind != CachePosition::Kind::log_full)
    regs.rip = cache::guest_pc(cache, *t.slot, regs, at).value;
  switch (at.kind) {
    case CachePosition::Kind::point: {
      const emu::Fragment& f = cache.fragment(at.fragment);
      const emu::Point& p = at.point;
      regs = guest_registers(t, regs, at);
      if (p.recovery & emu::kRcxSpilled) {
        const trace::Run& run = table_.run(f.longest_run);
        const uint32_t record_bytes = tracing() && run.recorded ? 4u * run.words : 0;
        regs.rcx = branch_registers(t, cursor + record_bytes).rcx;
      }
      uint32_t insns = p.insn;
      if (p.recovery & emu::kPointerStored) {
        ptrace::RemoteMemory& memory = t.process->space->code().memory();
        regs.rip = mend_stored_pointer(cache, at, regs, state, memory).value;
        insns++;
      }
      if (const auto run = t.process->space->translator().interrupted_run(f, insns)) {
        records_.ran(t, *run);
        // Its slots are in the buffer already, behind the cursor.
        if (tracing()) t.cursor += 4 * (table_.run(*run).words - 1);
      }
      break;
    }
    case CachePosition::Kind::branch_miss: {
      const BranchRegisters parked = branch_registers(t, cursor);
      regs.rcx = parked.rcx;
      regs.rdx = parked.rdx;
      if (!is_canonical(regs.pc())) branches_.undo(t, regs, cache::branching_site(cache, *t.slot));
      break;
    }
    case CachePosition::Kind::log_full: {
      const BranchRegisters parked = branch_registers(t, cursor);
      regs.rcx = parked.rcx;
      regs.rdx = parked.rdx;
      regs.rip = table_.block(BlockId(t.slot->pair_log()[1].block)).start.value;
      branches_.take_log(t);
      break;
    }
    case CachePosition::Kind::after_syscall:
    case CachePosition::Kind::call_over:
      regs.rcx = regs.rip;
      if (time_) time_->finish_call(t, regs);
      break;
    case CachePosition::Kind::before_syscall:
      if (time_) time_->finish_call(t, regs);
      break;
    case CachePosition::Kind::unlinked_exit:
    case CachePosition::Kind::stale:
    case CachePosition::Kind::syscall_trap:
    case CachePosition::Kind::outside:
    case CachePosition::Kind::turn_over:
    case CachePosition::Kind::between:
      break;
  }
}

// Steps through inserted code to the next exact place. `regs` are set in the thread. False: it
// died.
bool Engine::step_to_exact(GuestThread& t, Registers& regs) {
  const uint64_t alignment_check = regs.eflags & machine::flags::kAlignmentCheck;
  if (alignment_check == 0) return step_inserted_code(t, regs);
  regs.eflags &= ~alignment_check;
  if (!t.tracee.set_registers_if_alive(regs) || !step_inserted_code(t, regs)) return false;
  regs.eflags |= alignment_check;
  return t.tracee.set_registers_if_alive(regs);
}

bool Engine::step_inserted_code(GuestThread& t, Registers& regs) {
  const uint64_t before = records_.counts.context_steps;
  if (!step_to_border(t, regs)) return false;
  // A step's trap resets its disposition, as those of ours do.
  if (records_.counts.context_steps != before) repair_signal_state(t, SIGTRAP);
  return true;
}

bool Engine::step_to_border(GuestThread& t, Registers& regs) {
  StepMask mask(t.tracee);
  const emu::CodeCache& cache = t.process->space->cache();
  for (;;) {
    const CachePosition::Kind kind = cache.locate(regs.rip).kind;
    if (kind != CachePosition::Kind::between && kind != CachePosition::Kind::turn_over) break;
    if (kind == CachePosition::Kind::turn_over) {
      regs.rip++;
      time_->turns().refill(t);
      if (!t.tracee.set_registers_if_alive(regs)) return false;
      continue;
    }
    records_.counts.context_steps++;
    if (!t.tracee.step_if_alive()) return false;
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    if (!stop || !t.tracee.get_registers_if_alive(regs)) return false;
    siginfo_t info;
    if (stop->kind() != WaitStatus::Kind::signal_stop || !t.tracee.get_siginfo_if_alive(info)) {
      continue;
    }
    const cache::Stop what = decode_stop(t, regs, info);
    switch (what.kind) {
      case cache::Stop::Kind::full_buffer:
        drain_in_engine(t, regs);
        if (!t.tracee.set_registers_if_alive(regs)) return false;
        continue;
      case cache::Stop::Kind::unreadable_code:
        regs.rcx = t.slot->state().spill_rcx;
        regs.rdx = t.slot->state().spill_rdx;
        regs.rip = cache.base() + cache.fragment(what.at.fragment).body;
        return t.tracee.set_registers_if_alive(regs);
      case cache::Stop::Kind::step:
      case cache::Stop::Kind::watchpoint:
        note_announced_sequence(t);
        continue;
      default:
        t.deferred.push_back(info);  // SIGSTOP, or what the mask lets through
    }
  }
  return true;
}

// Leaves `regs` as the guest's; the caller sets them in the thread. False: it died.
bool Engine::to_guest(GuestThread& t, Registers& regs) {
  if (!t.in_engine || has_gone_out(t, regs)) return true;
  const emu::CodeCache& cache = t.process->space->cache();
  if (!cache.contains(regs.rip)) {
    SP_CHECK(false, "thread {} is at {:#x}, outside the code cache", t.tracee.tid().value,
             +regs.rip);
  }
  const CachePosition::Kind kind = cache.locate(regs.rip).kind;
  const bool is_exact =
      kind != CachePosition::Kind::between && kind != CachePosition::Kind::turn_over;
  if (!is_exact && !step_to_exact(t, regs)) return false;
  if (!has_gone_out(t, regs)) take_guest_state(t, regs, cache.locate(regs.rip));
  abort_announced_sequence(t, regs);
  return true;
}

void Engine::enter(GuestThread& t, Registers& regs) {
  if (!tracing()) t.guest_gs_base = regs.gs_base;
  if (regs.gs_base != t.guest_gs_base) {
    return note_unsupported(t, regs, "it sets the gs base");
  }
  if (!regs.is_64_bit()) return note_unsupported(t, regs, "it runs 32-bit code");
  if (has_trap_flag(regs)) return run_trapped(t, regs);
  emu::CodeCache& cache = t.process->space->cache();
  emu::StatePage& state = t.slot->state();
  if (regs.restart_pending() && (static_cast<int64_t>(regs.rax) == machine::kRestartNoIntr ||
                                 (time_ && time_->begins_anew(regs)))) {
    // It begins anew whatever happens: fork, execve and others that the gateway does not make by
    // itself.
    regs.rip -= machine::kSyscallInsnBytes;
    regs.rax = regs.orig_rax;
    regs.orig_rax = machine::kNoSyscall;
  }
  if (regs.restart_pending()) {
    // The kernel moves rip back to the system call instruction: to the gateway's.
    state.next_pc = regs.rip;
    regs.rip = cache.after_syscall_address();
  } else {
    const auto id = fragment_for(t, GuestAddr(regs.rip), std::nullopt);
    if (!id) return step_without_code(t, regs);
    regs.rip = cache.body_address(*id);
    regs.orig_rax = machine::kNoSyscall;
  }
  go_in(t, regs);
}

// regs.rip is in the cache, all else the guest's.
void Engine::go_in(GuestThread& t, Registers& regs) {
  emu::StatePage& state = t.slot->state();
  state.guest_r15 = regs.r15;
  regs.r15 = tracing() ? t.cursor : t.slot->guest;
  if (tracing()) regs.gs_base = t.slot->guest;
  state.cursor = t.cursor;  // a call that restarts does not enter the gateway
  if (!t.tracee.set_registers_if_alive(regs)) return;
  t.in_engine = true;
  if (!t.deferred.empty()) {
    if (t.holding) end_hold(t);
    return redeliver_deferred(t);
  }
  resume(t);
}

// Where no code is known the instruction faults, as a rule. Not many can be executed in a row: each
// is a step within the one before.
void Engine::step_without_code(GuestThread& t, Registers& regs) {
  constexpr unsigned kMostInARow = 100;
  if (steps_without_code_ == kMostInARow)
    return note_unsupported(t, regs, "its code cannot be read");
  steps_without_code_++;
  native_step(t, regs, nullptr);
  steps_without_code_--;
}

// In the trace. No fragment: nothing is known of the code.
void Engine::note_native(GuestThread& t, const emu::Fragment* fragment) {
  if (fragment != nullptr)
    records_.ran(t, fragment->longest_run);
  else
    records_.traces.gap(t, trace::GapReason::native);
}

// Executes the one instruction at regs.rip on the processor, at its own address.
void Engine::native_step(GuestThread& t, Registers& regs, const emu::Fragment* fragment) {
  records_.counts.native_steps++;
  const NativeInsn insn = look_at_insn(t.process->space->code().memory(), regs);
  if (time_ && insn.reads_clock && fragment != nullptr) {
    time_->read_clock(t, regs, insn);
    records_.ran(t, fragment->longest_run);
    return enter(t, regs);
  }
  if (options_.processor && answer_for_processor(*options_.processor, insn, regs)) {
    note_native(t, fragment);
    return enter(t, regs);
  }
  std::optional<siginfo_t> raised;
  bool saw_trap = false;
  {
    StepMask mask(t.tracee);
    regs.orig_rax = machine::kNoSyscall;
    if (!t.tracee.set_registers_if_alive(regs)) return;
    for (;;) {
      if (!(insn.traps_itself ? t.tracee.cont_if_alive() : t.tracee.step_if_alive())) return;
      const auto stop = stops_.wait_for_stop(t.tracee.tid());
      siginfo_t info;
      if (!stop || !t.tracee.get_registers_if_alive(regs)) return;
      if (stop->kind() == WaitStatus::Kind::signal_stop) {
        if (!t.tracee.get_siginfo_if_alive(info)) return;
        if (insn.traps_itself || ptrace::cause_of(info, regs) != ptrace::SignalCause::single_step) {
          raised = info;
        }
        break;
      }
      saw_trap = saw_trap || stop->is_trap();  // nothing has executed yet
    }
  }
  if (!raised && !insn.traps_itself) repair_signal_state(t, SIGTRAP);
  if (saw_trap && !t.tracee.interrupt_if_alive()) return;
  const bool executed = !raised || (raised->si_signo == SIGTRAP && raised->si_code > 0);
  if (executed && insn.shows_step)
    hide_pushed_trap_flag(t.process->space->code().memory(), regs.sp());
  if (executed) {
    note_announced_sequence(t);
    abort_announced_sequence(t, regs);
  }
  if (executed) note_native(t, fragment);
  if (raised) return deliver(t, regs, *raised);
  enter(t, regs);
}

void Engine::drain_in_engine(GuestThread& t, Registers& regs) {
  t.cursor = regs.r15;
  records_.traces.drain(t);
  if (windows_) windows_->note_drain();
  regs.r15 = t.cursor;
}

// Brings a thread that runs in the engine to guest context and leaves it stopped. False: it dies,
// or sleeps in the kernel until others, who may need us, have done something: then it is in the
// gateway.
bool Engine::quiesce(GuestThread& t) {
  if (t.parked) {
    Registers regs;
    return t.tracee.get_registers_if_alive(regs) && to_guest(t, regs) &&
           t.tracee.set_registers_if_alive(regs);
  }
  if (cannot_be_stopped(t) || !t.tracee.interrupt_if_alive()) return false;
  return await_guest(t);
}

bool Engine::await_guest(GuestThread& t) {
  t.in_group_stop = false;
  for (;;) {
    const auto stop = stops_.wait_for_stop(t.tracee.tid());
    if (stop && t.under_way && end_sequence(t, *stop)) return true;
    Registers regs;
    if (!stop || !t.tracee.get_registers_if_alive(regs)) return false;
    if (t.cut.is_active()) {
      t.cut.finish(regs);
      if (!t.tracee.set_registers_if_alive(regs)) return false;
    }
    if (stop->kind() == WaitStatus::Kind::syscall_stop) {
      if (!t.tracee.interrupt_if_alive()) return false;
      resume(t);
      continue;
    }
    if (stop->kind() == WaitStatus::Kind::event && !stop->is_trap()) {
      if (stop->is_event(ptrace::StopEvent::exit)) {
        on_exit_event(t);
        return false;
      }
      // Any stop clears an interrupt that was pending before it (kernel/signal.c ptrace_stop).
      if (!t.tracee.interrupt_if_alive()) return false;
      const bool makes_child = stop->is_event(ptrace::StopEvent::fork) ||
                               stop->is_event(ptrace::StopEvent::vfork) ||
                               stop->is_event(ptrace::StopEvent::clone);
      if (makes_child) {
        on_new_child(t, stop->event());
      } else {
        resume(t);
      }
      if (t.in_vfork) return false;
      continue;
    }
    t.in_group_stop = t.in_group_stop || stop->kind() == WaitStatus::Kind::group_stop;
    ptrace::SignalMask pending = 0, blocked = 0;
    if (stop->is_trap() && t.tracee.get_pending_signals_if_alive(pending) &&
        t.tracee.get_signal_mask_if_alive(blocked) &&
        (pending & ~blocked & ptrace::kInstructionSignals)) {
      // Our interrupt is reported before a trap of ours, or a fault, that has happened already.
      resume(t);
      continue;
    }
    return settle(t, *stop, regs);
  }
}

// Engine to guest context, at a stop that is no event but our interrupt's. False: it died.
bool Engine::settle(GuestThread& t, const WaitStatus& stop, Registers& regs) {
  const emu::CodeCache& cache = t.process->space->cache();
  std::optional<siginfo_t> raised;
  siginfo_t info;
  if (stop.kind() == WaitStatus::Kind::signal_stop && t.tracee.get_siginfo_if_alive(info)) {
    const cache::Stop what = reveal_stop(t, regs, info);
    if (t.in_engine && met_breakpoint(t, info, regs)) {
      repair_signal_state(t, SIGTRAP);
      note_announced_sequence(t);
    } else if (what.is_trap()) {
      repair_signal_state(t, SIGTRAP);
      regs.rip--;
    } else if (what.kind == cache::Stop::Kind::full_buffer) {
      repair_signal_state(t, SIGSEGV);
      drain_in_engine(t, regs);
    } else if (what.kind == cache::Stop::Kind::unreadable_mask) {
      repair_signal_state(t, info.si_signo);
    } else if (what.kind == cache::Stop::Kind::sent) {
      t.deferred.push_back(info);
    } else if (what.at.kind != CachePosition::Kind::between) {
      raised = info;
    }  // else a self-check could not read its code, and will say so again
  } else {
    (void)ptrace::conceal_interruption(t.tracee, regs);
  }
  if (!t.tracee.set_registers_if_alive(regs) || !to_guest(t, regs)) return false;
  if (raised) {
    // SIGILL, SIGFPE and SIGTRAP name the instruction.
    if (cache.contains(reinterpret_cast<uint64_t>(raised->si_addr))) {
      raised->si_addr = reinterpret_cast<void*>(regs.rip);
    }
    t.deferred.insert(t.deferred.begin(), *raised);
  }
  return t.tracee.set_registers_if_alive(regs);
}

}  // namespace shadowprof::inject
