// SPDX-License-Identifier: MIT
//
// Threads that announce a restartable sequence, and execute it (sequence_watch.h).
#include "inject/engine.h"
#include "inject/guest_signals.h"
#include "inject/sequence_watch.h"
#include "inject/signal_storm.h"
#include "ptrace/hardware_breakpoint.h"

namespace shadowprof::inject {

using ptrace::HardwareBreakpoint;

// A breakpoint of a sequence that is over by now: what ended it was reported first. The program has
// no debug registers of its own, and a trap of ours would kill it.
void Engine::ignore_breakpoint(GuestThread& t, Registers& regs) {
  repair_signal_state(t, SIGTRAP);
  if (!t.in_engine) return enter(t, regs);
  if (t.tracee.set_registers_if_alive(regs)) go_on(t);
}

// The thread is in the cache, behind an instruction that has stored into the pointer.
void Engine::on_announced_sequence(GuestThread& t, Registers& regs) {
  repair_signal_state(t, SIGTRAP);
  cache::AddressSpace& space = *t.process->space;
  const auto sequence = announced_sequence(space.code().memory(), t.rseq);
  if (!sequence) return go_on(t);
  const FragmentId fragment = space.cache().locate(regs.rip).fragment;
  if (!to_guest(t, regs)) return;
  if (!sequence->code.contains(regs.pc())) return enter(t, regs);
  if (options_.bursts != nullptr) {
    abort_sequence(t, *sequence, regs);
    return let_out(t, regs);
  }
  const auto store = insn_before(table_, t, fragment, regs.pc());
  const auto exits = ways_out(space.code().memory(), *sequence);
  if (!store || !is_plain_store(*store) || !exits ||
      exits->size() > ptrace::kMostHardwareBreakpoints) {
    abort_sequence(t, *sequence, regs);
    return note_unsupported(t, regs,
                            "its restartable sequence (rseq) can be left in too many ways");
  }
  if (!t.deferred.empty()) {
    abort_sequence(t, *sequence, regs);
    return enter(t, regs);
  }
  records_.traces.gap(t, trace::GapReason::native);
  regs.rip = store->address.value;
  // Some sequences contain their store: announced, they would be aborted at once.
  (void)space.code().memory().write_value(sequence_pointer(t.rseq), uint64_t{0});
  run_sequence(t, *sequence, *exits, regs);
}

void Engine::run_sequence(GuestThread& t, const RestartableSequence& sequence,
                          std::span<const GuestAddr> exits, const Registers& regs) {
  std::vector<HardwareBreakpoint> breakpoints;
  for (const GuestAddr exit : exits) breakpoints.push_back({exit});
  if (!t.tracee.set_registers_if_alive(regs)) return;
  if (const Status set = ptrace::set_hardware_breakpoints(t.tracee, breakpoints); !set) {
    if (set.error().errno_value != ESRCH) go_native(*t.process, set.error().message);
    return;
  }
  t.under_way = sequence;
  t.trapped = true;
  resume(t);
}

// At a stop that is no signal's.
void Engine::go_on_behind_sequence(GuestThread& t, const ptrace::WaitStatus& stop) {
  const bool moment_is_over = stop.kind() == ptrace::WaitStatus::Kind::event;
  if (t.holding && moment_is_over) end_hold(t);
  Registers regs;
  if (!t.tracee.get_registers_if_alive(regs)) return;
  const ptrace::Tracee thread = t.tracee;
  enter(t, regs);
  // A group stop that was run through is reported again this way.
  if (stop.kind() == ptrace::WaitStatus::Kind::group_stop) (void)thread.interrupt_if_alive();
}

}  // namespace shadowprof::inject
