// SPDX-License-Identifier: MIT
//
// Threads that take turns, so that they execute the same in each run (turn_order.h).
//
// One thread runs at a time, of all processes. All others are parked: they are stopped, or have
// stopped and what they report is left alone until they have the turn; or they sleep in the kernel.
// The kernel does what it does natively: futexes, pipes, locks and signals are its own. Since there
// is one thread at a time, the order in which threads come to wait, and are woken, is always the
// same.
//
//   turn over       translated code has counted down its backward branches (translator_turns.cc).
//                   Such code is made when there is somebody else to run, or a wait has an end.
//   a call          that may wait stops behind itself (StatePage::stops_behind_call). Until then
//                   the thread is looked at: when it is asleep, the turn is somebody else's.
//   a wake          of a sleeper is over before the call that wakes returns. So who gets the next
//                   turn is known when each thread that does not sleep any more has reported.
//   a timeout       is taken out of the call (TimedWait::wait_endlessly); the clock's owners, who
//                   are we, end it by an interrupt.
//   a timer         (program_timers.h) that is armed makes turns, also of a program of one thread:
//                   where a turn is over, which is after the same number of branches in each run,
//                   the clock may have passed it. Where all threads wait, the first is waited for
//                   as the first timeout is.
//
// When nobody can go on, somebody outside is waited for. A thread that sleeps in a way that was not
// expected, such as for a page that userfaultfd(2) has to bring, is interrupted after a while, and
// loses its turn.
//
//   the engine's loop  ──next()──▶ a report, or a parked thread that has the turn now
//   before it resumes  ──parks()──▶ not its turn: it stays stopped until next() names it
//   at stops           ──note_call(), turn_over(), pass(), ...──▶ what the thread does to the order
//
// Nothing is resumed here; who sleeps is interrupted.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_timer.h"
#include "inject/fixed/program_timers.h"
#include "inject/fixed/turn_order.h"
#include "inject/guests.h"
#include "inject/stop_queue.h"
#include "inject/thread_state.h"
#include "machine/virtual_clock.h"
#include "ptrace/wait.h"

namespace shadowprof::inject {

class TurnKeeper {
 public:
  // Turns by this seed, if there is one. `follows`: also those of children. All else outlives it.
  TurnKeeper(const Guests& guests, StopQueue& stops, machine::VirtualClock& clock,
             ProgramTimers& timers, std::optional<uint64_t> seed, bool follows)
      : guests_(guests),
        stops_(stops),
        clock_(clock),
        timers_(timers),
        turns_(seed),
        follows_(follows) {}

  // By the thread that waits for the program, before any other of these.
  Status prepare();
  // Turns are taken from now on; `t` is the only thread. Again is nothing.
  void begin(GuestThread& t);
  bool is_active() const { return turns_.is_active(); }
  // Makes calls that others have to do with come to us.
  void watch_calls(GuestThread& t) const;

  struct Next {
    ptrace::WaitOutcome report;
    GuestThread* goes_on = nullptr;  // it was parked, and has the turn; there is no report
  };
  Next next();

  // The thread is about to be set going. True: it is not, but waits for its turn.
  bool parks(GuestThread& t);
  // Its code does not count down turns, and should from now on.
  bool needs_checks(GuestThread& t);
  // Its turn has so many branches anew.
  void refill(GuestThread& t) { t.slot->state().turn_left = turns_.length(); }
  // Somebody else comes, or another timer is armed: a long turn is as long as that allows from now
  // on.
  void shorten(GuestThread& t, bool somebody_comes);
  // It has counted down its turn, and goes on when it has the next.
  void turn_over(GuestThread& t);
  // If it has the turn, it has lost it.
  void pass(GuestThread& t);

  // What a call of the holder's has woken may be on its way out of a call of its own, in which it
  // takes what is there by then: bytes of a pipe, events of many descriptors. It is to have taken
  // them before the holder's next call brings more.
  void settle_takers();
  // The gateway makes it when the thread goes on.
  void note_call(GuestThread& t, const ptrace::Registers& regs);
  // Something was done that may wake sleepers.
  void note_wake() { may_have_woken_ = true; }

  // It is at its exit event.
  void note_exit(GuestThread& t);
  void note_death(Tid tid);
  // The thread has executed a program, and has its process's id now.
  void note_execution(Tid former, Tid tid);

  // The calls in which threads have waited for somebody outside.
  std::vector<std::string> waits_for_others() const;
  // Somebody has slept uninterruptibly for so long that others went on without it.
  bool has_lost_patience() const { return has_lost_patience_; }

 private:
  using Clock = LastingSleep::Clock;

  GuestThread* give();
  bool can_go_on(Tid tid) const;
  bool is_contended();
  uint64_t length();
  void fire_timers();

  bool await_endings();
  ptrace::WaitOutcome::Kind await_holder(GuestThread& t);
  void look_for_sleeper(GuestThread& t);
  ptrace::WaitOutcome await_others();

  template <typename Wanted>
  void settle_those(Wanted is_wanted);
  void settle();
  void settle(GuestThread& t);
  template <typename InState>
  void look_until(GuestThread& t, InState is_settled);

  std::optional<uint64_t> first_deadline() const;
  void end_waits_until(uint64_t now_ns);

  void note_waits_for_others();
  void note_wait_for_others(const GuestThread& t);

  const Guests& guests_;
  StopQueue& stops_;
  machine::VirtualClock& clock_;
  ProgramTimers& timers_;
  TurnOrder turns_;
  bool follows_;
  std::optional<ThreadTimer> wake_timer_;  // waits that may last for ever are looked at
  bool may_have_woken_ = false;            // calls were made since threads that wait were looked at
  unsigned looks_ = 0;                     // in a row, at one thread
  LastingSleep sleep_of_holder_;
  LastingSleep sleep_at_end_;  // of who is about to end
  bool somebody_ends_ = false;
  bool has_lost_patience_ = false;
  std::optional<Clock::time_point> idle_since_;
  std::set<std::pair<int32_t, unsigned>> waits_for_others_;  // process, number of the call
};

}  // namespace shadowprof::inject
