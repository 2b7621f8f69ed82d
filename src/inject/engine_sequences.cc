// SPDX-License-Identifier: MIT
//
// Restartable sequences of the program (restartable.h). The kernel compares the program counter
// with the program's addresses, so a sequence is executed there, by the program's own instructions:
//
//   registered   a data breakpoint on the pointer tells when a thread announces a sequence
//   announced    the thread, in the cache, is right behind the store. When it is resumed, the
//   kernel
//                forgets what was announced, as a thread in the cache is in no sequence; and had it
//                stopped inside the sequence, it would have been taken off its processor there. So
//                it goes back to the store, in guest context, and executes that once more, with
//                breakpoints wherever the sequence can be left
//   under way    the kernel aborts it when it must. Any stop but that of a breakpoint is an
//                interruption like those: it is aborted by us
//   left         the thread goes on in the cache
//
// What a sequence executes is not recorded. A thread that announces one while it is brought to
// guest context has been interrupted, too. A program whose sequences cannot be run so leaves the
// engine. In bursts who announces one is interrupted, and leaves.
#include <array>

#include "inject/engine.h"
#include "ptrace/hardware_breakpoint.h"

namespace shadowprof::inject {

using ptrace::HardwareBreakpoint;

namespace {

constexpr uint64_t kUnregister = 1;  // RSEQ_FLAG_UNREGISTER

// Where there are no debug registers, the program is told that there is no rseq.
Status watch(ptrace::Tracee thread, GuestAddr rseq) {
  const HardwareBreakpoint pointer{sequence_pointer(rseq), HardwareBreakpoint::When::written};
  return ptrace::set_hardware_breakpoints(thread, {&pointer, rseq == GuestAddr() ? 0u : 1u});
}

}  // namespace

// `regs` are the guest's before rseq(2). False: it is to be refused. Where its area may be the
// kernel judges, so any address will do to find out.
bool Engine::can_watch_sequences(GuestThread& t, const Registers& regs) {
  constexpr uint64_t kAlignment = 32;
  if (regs.rdx & kUnregister) return true;
  if (!ptrace::hardware_breakpoints_trap()) return false;
  const Status possible = watch(t.tracee, GuestAddr(regs.rsp & ~(kAlignment - 1)));
  (void)watch(t.tracee, t.rseq);
  return possible || possible.error().errno_value == ESRCH;
}

void Engine::after_rseq(GuestThread& t, const Registers& before) {
  // It was possible before the call.
  (void)set_rseq(t, (before.rdx & kUnregister) ? GuestAddr() : GuestAddr(before.rdi));
}

// Where the thread, or its parent's before it was forked, has registered its struct rseq; null:
// nowhere.
Status Engine::set_rseq(GuestThread& t, GuestAddr rseq) {
  const bool was_watched = std::exchange(t.rseq, rseq) != GuestAddr();
  return was_watched || rseq != GuestAddr() ? watch(t.tracee, rseq) : Status{};
}

// Was it stopped by the breakpoint on its pointer, or by one where a sequence is left?
bool Engine::met_breakpoint(const GuestThread& t, const siginfo_t& info, const Registers& regs) {
  return t.rseq != GuestAddr() && info.si_signo == SIGTRAP &&
         ptrace::cause_of(info, regs) == ptrace::SignalCause::hardware_breakpoint;
}

// A breakpoint of a sequence that is over by now: what ended it was reported first. The program has
// no debug registers of its own, and a trap of ours would kill it.
void Engine::ignore_breakpoint(GuestThread& t, Registers& regs) {
  repair_signal_state(t, SIGTRAP);
  if (!t.in_engine) return enter(t, regs);
  if (t.tracee.set_registers_if_alive(regs)) go_on(t);
}

// What the thread has announced while it was on its way to guest context.
void Engine::note_announced_sequence(GuestThread& t) {
  if (t.rseq == GuestAddr()) return;
  t.announced = announced_sequence(t.process->space->code().memory(), t.rseq);
}

// The thread is in guest context with these registers, which are not yet set.
void Engine::abort_announced_sequence(GuestThread& t, Registers& regs) {
  const auto sequence = std::exchange(t.announced, std::nullopt);
  if (sequence) abort_sequence(t, *sequence, regs);
}

void Engine::abort_sequence(GuestThread& t, const RestartableSequence& sequence, Registers& regs) {
  if (!sequence.code.contains(regs.pc())) return;
  regs.rip = sequence.abort.value;
  (void)t.process->space->code().memory().write_value(sequence_pointer(t.rseq), uint64_t{0});
}

// The instruction before `pc`, which the thread has just executed in `fragment`.
std::optional<decoder::Insn> Engine::insn_before(const GuestThread& t, FragmentId fragment,
                                                 GuestAddr pc) const {
  cache::AddressSpace& space = *t.process->space;
  const trace::Run& run = table_.run(space.cache().fragment(fragment).longest_run);
  for (const BlockId id : table_.blocks(run)) {
    const trace::Block block = table_.block(id);
    if (pc <= block.start || pc > block.end) continue;
    for (GuestAddr at = block.start; at < pc;) {
      std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
      const size_t size = space.code().memory().read_some(at, bytes);
      const decoder::Insn insn = decoder::decode(std::span(bytes).first(size), at);
      if (insn.length == 0) break;
      if (insn.next() == pc) return insn;
      at = insn.next();
    }
  }
  return std::nullopt;
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
  if (options_.bursts) {
    abort_sequence(t, *sequence, regs);
    return leave_burst(t, regs);
  }
  const auto store = insn_before(t, fragment, regs.pc());
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
  traces_.gap(t, trace::GapReason::native);
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

// A thread with a sequence under way has stopped: it is in guest context behind it, or where it has
// been aborted. True: a breakpoint has stopped it, and there is nothing else to do about the stop.
bool Engine::end_sequence(GuestThread& t, const ptrace::WaitStatus& stop) {
  const RestartableSequence sequence = *std::exchange(t.under_way, std::nullopt);
  t.trapped = false;
  Registers regs;
  siginfo_t info;
  if (!watch(t.tracee, t.rseq) || !t.tracee.get_registers_if_alive(regs)) return false;
  const bool left = stop.is_signal_stop(SIGTRAP) && t.tracee.get_siginfo_if_alive(info) &&
                    met_breakpoint(t, info, regs);
  if (left) repair_signal_state(t, SIGTRAP);
  regs.eflags &= ~machine::flags::kResume;
  abort_sequence(t, sequence, regs);
  (void)t.tracee.set_registers_if_alive(regs);
  return left;
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
