// SPDX-License-Identifier: MIT
//
// Timers of the programs on the virtual clock. What is set is known to VirtualTimers; here is what
// is due when the clock has passed one.
//
// That is done from outside, at once: a signal is sent, or what waits for a descriptor is woken.
// The kernel chooses who gets the signal, and when it has been unblocked.
#pragma once

#include <csignal>
#include <optional>

#include "inject/fixed/timer_calls.h"
#include "inject/fixed/timer_descriptor.h"
#include "inject/fixed/virtual_timers.h"
#include "inject/guests.h"
#include "machine/virtual_clock.h"
#include "ptrace/wait.h"

namespace shadowprof::inject {

class ProgramTimers {
 public:
  // All outlive it.
  ProgramTimers(const Guests& guests, const machine::VirtualClock& clock)
      : guests_(guests), clock_(clock) {}

  TimerCall call(const TimeCall& of_time, const GuestProcess& process);

  bool any_armed() const { return timers_.any_armed(); }
  // See VirtualTimers.
  std::optional<uint64_t> first_ns() const { return timers_.first_ns(); }
  std::optional<uint64_t> least_left_ns() const { return timers_.least_left_ns(clock_); }
  // What is due. True: something was, and whoever it wakes has been woken.
  bool fire();
  // A signal, as the program is to see it: those of setitimer(2) are the kernel's.
  static siginfo_t as_the_kernel_sends(const siginfo_t& info);

  void executed(Tid process) { timers_.executed(process); }
  void ended(Tid process) { timers_.ended(process); }
  // The process leaves the engine: what is left of its timers is real time. `t` is stopped, and of
  // it; `regs` are its own.
  void leave(GuestThread& t, const ptrace::Registers& regs);

 private:
  void send_signal_of(const VirtualTimers::Expiry& expiry);
  std::optional<TimerDescriptor> open_timer(const VirtualTimers::Expiry& expiry) const;
  void expire_descriptor(const VirtualTimers::Expiry& expiry);

  const Guests& guests_;
  const machine::VirtualClock& clock_;
  VirtualTimers timers_;
};

}  // namespace shadowprof::inject
