// SPDX-License-Identifier: MIT
//
// The virtual clock (machine/virtual_clock.h). How many instructions a thread has executed follows
// from its counters, exactly whenever it has come to us by itself; so they cost nothing while the
// program runs.
//
// A call that may wait is made by the thread itself, as ever, and with as much real time as it asks
// for. Its slot makes it stop behind the call, where the clock goes to the end of the wait. Where
// the call's answer would not tell that the time is over, threads take turns from then on, since
// then it is we who end waits.
#include <algorithm>
#include <utility>

#include "inject/engine.h"

namespace shadowprof::inject {

// The clock counts what the thread has executed up to now.
void Engine::catch_up(GuestThread& t) {
  if (clock_ && t.slot) clock_->retire(t.process->space->newly_retired(*t.slot));
}

// It was counted, but not by a counter of the slot's.
void Engine::note_retired(RunId run, uint64_t times) {
  if (clock_) clock_->retire(table_.run(run).insns * times);
}

TimeCall Engine::time_call(GuestThread& t, const Registers& regs) {
  return {regs, t.process->space->code().memory(), *clock_, t.process->began_ns, t.process->pid};
}

// rdtsc or rdtscp, at regs.rip. The processor does not execute it.
void Engine::read_clock(GuestThread& t, Registers& regs, const NativeInsn& insn, RunId run) {
  catch_up(t);
  clock_->look();
  const uint64_t stamp = clock_->time_stamp();
  regs.rax = static_cast<uint32_t>(stamp);
  regs.rdx = stamp >> 32;
  if (insn.names_core) regs.rcx = 0;
  regs.rip += insn.length;
  record_run(t, run);
  enter(t, regs);
}

// The wait of a call that is about to be made.
std::optional<TimedWait> Engine::timed_wait(GuestThread& t, const Registers& regs) {
  auto wait = TimedWait::of(regs, t.process->space->code().memory(), *clock_);
  if (wait && !wait->result_tells() && wait->waits(*clock_)) begin_turns(t);
  if (wait || !turns_.is_active()) return wait;
  auto socket = SocketTimeout::of(regs, t.process->pid, socket_timeouts_);
  if (!socket || !socket->lift()) return std::nullopt;
  wait = TimedWait::on_socket(regs, socket->length_ns(), *clock_);
  t.socket.emplace(std::move(*socket));
  return wait;
}

// `regs`: of the engine, behind the gateway's trap. False: it does not wait for a moment.
bool Engine::make_timed_wait(GuestThread& t, Registers& regs) {
  if (!clock_ || t.holding) return false;
  cache::AddressSpace& space = *t.process->space;
  catch_up(t);
  auto wait = timed_wait(t, regs);
  if (!wait) return false;
  t.call = static_cast<unsigned>(regs.rax);
  const TimedWait::Room room{GuestAddr(t.slot->guest + offsetof(emu::StatePage, call_time)),
                             t.slot->state().call_time,
                             GuestAddr(t.slot->guest + offsetof(emu::StatePage, reserved))};
  if (turns_.is_active() && wait->waits(*clock_)) {
    wait->wait_endlessly(regs, room);
  } else {
    wait->wait_really(regs, *clock_, room);
  }
  t.wait = wait;
  may_have_woken_ = true;  // it may begin by giving something back: a lock, a mask
  stop_behind_call(t);
  regs.rip = space.cache().syscall_address();
  if (t.tracee.set_registers_if_alive(regs)) go_on(t);
  return true;
}

// The call is made by the gateway, and is no TimedWait.
void Engine::note_time_of_call(GuestThread& t, const Registers& regs) {
  if (!clock_ || t.holding) return;
  ptrace::RemoteMemory& memory = t.process->space->code().memory();
  if (socket_timeouts_.note(regs, t.process->pid, memory)) begin_turns(t);
  t.usage = ChildUsage::of(regs, memory);
  if (t.usage) stop_behind_call(t);
}

void Engine::stop_behind_call(GuestThread& t) {
  t.slot->state().stops_behind_call = 1;
  t.slot->state().leaves = 1;
  t.in_call = true;
}

// The thread is behind its call, or has not come to make it; `regs` are the guest's.
void Engine::finish_call(GuestThread& t, Registers& regs) {
  if (!clock_) return;
  emu::StatePage& state = t.slot->state();
  state.stops_behind_call = 0;
  state.leaves = 0;
  t.in_call = false;
  t.socket.reset();
  if (const auto usage = std::exchange(t.usage, {}))
    usage->mend(static_cast<int64_t>(regs.rax), t.process->space->code().memory());
  if (!t.wait) return;
  catch_up(t);
  t.wait->finish(regs, t.process->space->code().memory(), *clock_);
  t.wait.reset();
}

// A call that the kernel would restart is to come to us again, as its time has to be told anew.
bool Engine::begins_anew(const Registers& regs) const {
  if (turns_.is_active()) return true;
  return clock_ && (std::ranges::count(timed_calls(), regs.orig_rax) != 0 ||
                    std::ranges::count(child_waits(), regs.orig_rax) != 0);
}

}  // namespace shadowprof::inject
