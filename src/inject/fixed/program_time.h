// SPDX-License-Identifier: MIT
//
// The time of programs that are to find the same times in each run: a clock (virtual_clock.h) that
// advances with what they execute (guest_clock.h), timers on it, and turns of their threads.
//
//   ProgramTime ─▶ the clock, SocketTimeouts     what is told of the time, and what waits for it
//             ├──▶ ProgramTimers                 what is due when the clock has passed a timer
//             └──▶ TurnKeeper ─▶ ProgramTimers   who runs
//
// A call that tells or sets the time is answered here, in guest context. One that may wait is made
// by the thread itself, as ever, and with as much real time as it asks for. Its slot makes it stop
// behind the call, where the clock goes to the end of the wait. Where the call's answer would not
// tell that the time is over, threads take turns from then on, since then it is we who end waits.
//
//   in the gateway    begin_wait(): the call waits for a moment, and has other registers now
//                     note_call(): it does not, and is about to be made
//   guest context     answers(), answer(); mend() when the kernel has answered
//   behind the call   finish_call()
#pragma once

#include <cstdint>
#include <optional>

#include "inject/fixed/program_timers.h"
#include "inject/fixed/socket_timeout.h"
#include "inject/fixed/time_calls.h"
#include "inject/fixed/turn_keeper.h"
#include "inject/guests.h"
#include "inject/native_insn.h"
#include "inject/stop_queue.h"
#include "machine/virtual_clock.h"

namespace shadowprof::inject {

class ProgramTime {
 public:
  using Registers = ptrace::Registers;

  // See TurnKeeper. `guests` and `stops` outlive it.
  ProgramTime(const Guests& guests, StopQueue& stops, std::optional<uint64_t> schedule_seed,
              bool follows)
      : timers_(guests, clock_), turns_(guests, stops, clock_, timers_, schedule_seed, follows) {}

  machine::VirtualClock& clock() { return clock_; }
  ProgramTimers& timers() { return timers_; }
  TurnKeeper& turns() { return turns_; }

  // Makes calls that have to do with time come to us.
  void watch_calls(GuestThread& t) const;

  // rdtsc or rdtscp, at regs.rip. The processor does not execute it.
  void read_clock(GuestThread& t, Registers& regs, const NativeInsn& insn);

  // `regs`: in the gateway, before its system call instruction. False: the call does not wait for a
  // moment.
  bool begin_wait(GuestThread& t, Registers& regs);
  // The same registers. The call is none of those, and is made by the gateway.
  void note_call(GuestThread& t, const Registers& regs);
  // The thread is behind its call, or has not come to make it; `regs` are the guest's.
  void finish_call(GuestThread& t, Registers& regs);
  // A call that the kernel would restart is to come to us again, as its time has to be told anew.
  bool begins_anew(const Registers& regs) const;

  static bool answers(long number) { return is_time_call(number) || is_timer_call(number); }
  // In guest context. Nothing: the kernel is to answer it.
  std::optional<int64_t> answer(GuestThread& t, const Registers& regs);
  // The kernel has answered a call that was made with these registers, and without an error.
  void mend(GuestThread& t, const Registers& before);

 private:
  TimeCall time_call(GuestThread& t, const Registers& regs);
  std::optional<TimedWait> timed_wait(GuestThread& t, const Registers& regs);

  machine::VirtualClock clock_;
  SocketTimeouts socket_timeouts_;
  ProgramTimers timers_;
  TurnKeeper turns_;
};

}  // namespace shadowprof::inject
