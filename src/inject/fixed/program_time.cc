// SPDX-License-Identifier: MIT
#include "inject/fixed/program_time.h"

#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "inject/fixed/guest_clock.h"

namespace shadowprof::inject {

void ProgramTime::watch_calls(GuestThread& t) const {
  if (turns_.is_active()) turns_.watch_calls(t);
  for (const auto numbers : {time_calls(), timed_calls(), timer_calls(), child_waits()})
    for (const unsigned number : numbers) t.slot->watch(number);
  t.slot->watch(SYS_setsockopt);
}

TimeCall ProgramTime::time_call(GuestThread& t, const Registers& regs) {
  return {regs, t.process->space->code().memory(), clock_, t.process->began_ns, t.process->pid};
}

void ProgramTime::read_clock(GuestThread& t, Registers& regs, const NativeInsn& insn) {
  catch_up(clock_, t);
  clock_.look();
  const uint64_t stamp = clock_.time_stamp();
  regs.rax = static_cast<uint32_t>(stamp);
  regs.rdx = stamp >> 32;
  if (insn.names_core) regs.rcx = 0;
  regs.rip += insn.length;
}

// The wait of a call that is about to be made.
std::optional<TimedWait> ProgramTime::timed_wait(GuestThread& t, const Registers& regs) {
  auto wait = TimedWait::of(regs, t.process->space->code().memory(), clock_);
  if (wait && !wait->result_tells() && wait->waits(clock_)) turns_.begin(t);
  if (wait || !turns_.is_active()) return wait;
  auto socket = SocketTimeout::of(regs, t.process->pid, socket_timeouts_);
  if (!socket || !socket->lift()) return std::nullopt;
  wait = TimedWait::on_socket(regs, socket->length_ns(), clock_);
  t.socket.emplace(std::move(*socket));
  return wait;
}

bool ProgramTime::begin_wait(GuestThread& t, Registers& regs) {
  if (t.holding) return false;
  catch_up(clock_, t);
  auto wait = timed_wait(t, regs);
  if (!wait) return false;
  t.call = static_cast<unsigned>(regs.rax);
  const TimedWait::Room room{GuestAddr(t.slot->guest + offsetof(emu::StatePage, call_time)),
                             t.slot->state().call_time,
                             GuestAddr(t.slot->guest + offsetof(emu::StatePage, reserved))};
  if (turns_.is_active() && wait->waits(clock_)) {
    wait->wait_endlessly(regs, room);
  } else {
    wait->wait_really(regs, clock_, room);
  }
  t.wait = wait;
  turns_.note_wake();  // it may begin by giving something back: a lock, a mask
  t.stop_behind_call();
  return true;
}

void ProgramTime::note_call(GuestThread& t, const Registers& regs) {
  if (t.holding) return;
  ptrace::RemoteMemory& memory = t.process->space->code().memory();
  if (socket_timeouts_.note(regs, t.process->pid, memory)) turns_.begin(t);
  t.usage = ChildUsage::of(regs, memory);
  if (t.usage) t.stop_behind_call();
  turns_.note_call(t, regs);
}

void ProgramTime::finish_call(GuestThread& t, Registers& regs) {
  t.go_on_behind_call();
  t.socket.reset();
  if (const auto usage = std::exchange(t.usage, {}))
    usage->mend(static_cast<int64_t>(regs.rax), t.process->space->code().memory());
  if (!t.wait) return;
  catch_up(clock_, t);
  t.wait->finish(regs, t.process->space->code().memory(), clock_);
  t.wait.reset();
}

bool ProgramTime::begins_anew(const Registers& regs) const {
  return turns_.is_active() || std::ranges::count(timed_calls(), regs.orig_rax) != 0 ||
         std::ranges::count(child_waits(), regs.orig_rax) != 0;
}

std::optional<int64_t> ProgramTime::answer(GuestThread& t, const Registers& regs) {
  const TimeCall call = time_call(t, regs);
  catch_up(clock_, t);
  if (is_time_call(call.number())) return answer_time_call(call);
  const auto result = answer_timer_call(timers_.call(call, *t.process));
  if (timers_.any_armed()) turns_.begin(t);
  turns_.shorten(t, false);
  return result;
}

void ProgramTime::mend(GuestThread& t, const Registers& before) {
  const TimeCall call = time_call(t, before);
  mend_resource_usage(call);
  note_timer_call(timers_.call(call, *t.process));
}

}  // namespace shadowprof::inject
