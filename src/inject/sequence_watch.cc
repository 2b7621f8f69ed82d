// SPDX-License-Identifier: MIT
#include "inject/sequence_watch.h"

#include <array>
#include <span>
#include <utility>

#include "inject/guest_signals.h"
#include "ptrace/hardware_breakpoint.h"
#include "ptrace/signal_cause.h"

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

bool can_watch_sequences(GuestThread& t, const ptrace::Registers& regs) {
  constexpr uint64_t kAlignment = 32;
  if (regs.rdx & kUnregister) return true;
  if (!ptrace::hardware_breakpoints_trap()) return false;
  const Status possible = watch(t.tracee, GuestAddr(regs.rsp & ~(kAlignment - 1)));
  (void)watch(t.tracee, t.rseq);
  return possible || possible.error().errno_value == ESRCH;
}

void after_rseq(GuestThread& t, const ptrace::Registers& before) {
  // It was possible before the call.
  (void)set_rseq(t, (before.rdx & kUnregister) ? GuestAddr() : GuestAddr(before.rdi));
}

Status set_rseq(GuestThread& t, GuestAddr rseq) {
  const bool was_watched = std::exchange(t.rseq, rseq) != GuestAddr();
  return was_watched || rseq != GuestAddr() ? watch(t.tracee, rseq) : Status{};
}

bool met_breakpoint(const GuestThread& t, const siginfo_t& info, const ptrace::Registers& regs) {
  return t.rseq != GuestAddr() && info.si_signo == SIGTRAP &&
         ptrace::cause_of(info, regs) == ptrace::SignalCause::hardware_breakpoint;
}

void note_announced_sequence(GuestThread& t) {
  if (t.rseq == GuestAddr()) return;
  t.announced = announced_sequence(t.process->space->code().memory(), t.rseq);
}

void abort_announced_sequence(GuestThread& t, ptrace::Registers& regs) {
  const auto sequence = std::exchange(t.announced, std::nullopt);
  if (sequence) abort_sequence(t, *sequence, regs);
}

void abort_sequence(GuestThread& t, const RestartableSequence& sequence, ptrace::Registers& regs) {
  if (!sequence.code.contains(regs.pc())) return;
  regs.rip = sequence.abort.value;
  (void)t.process->space->code().memory().write_value(sequence_pointer(t.rseq), uint64_t{0});
}

std::optional<decoder::Insn> insn_before(const trace::BlockTable& table, const GuestThread& t,
                                         FragmentId fragment, GuestAddr pc) {
  cache::AddressSpace& space = *t.process->space;
  const trace::Run& run = table.run(space.cache().fragment(fragment).longest_run);
  for (const BlockId id : table.blocks(run)) {
    const trace::Block block = table.block(id);
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

bool end_sequence(GuestThread& t, const ptrace::WaitStatus& stop) {
  const RestartableSequence sequence = *std::exchange(t.under_way, std::nullopt);
  t.trapped = false;
  ptrace::Registers regs;
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

}  // namespace shadowprof::inject
