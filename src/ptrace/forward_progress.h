// SPDX-License-Identifier: MIT
//
// Forward progress of a traced thread that is sent signals faster than its tracer lets it go on.
//
// Each signal stops the thread, which takes longer than its handler: a timer of 10 us has expired
// again by then, so one is pending whenever the handler returns, and the thread never executes an
// instruction of its own. So one that was interrupted again and again in the same place runs for a
// moment after its handler has returned, with its signals kept back:
//
//   - They stay in the kernel's queues, complete and in order; only the thread's mask changes.
//   - The program cannot see the mask, nor sleep under it: the thread stops at the entry of its
//     next system call, and at each stop it gets its own mask back. What is pending then interrupts
//     the call as if it had been sent just now.
//   - Without a call, the moment ends with an interrupt.
//
//   look()         at each stop of the thread
//   wants_calls()  whether it is to stop at its system calls when it goes on
//   begin_hold()   right before it goes on; if it answers with a moment, the thread goes on to its
//                  next system call (Tracee::syscall_if_alive), and is interrupted after that
//
// If we are killed within a moment, which is some 40 us of a thread in a storm, it goes on without
// these signals.
#pragma once

#include <chrono>
#include <optional>

#include "ptrace/storm_count.h"
#include "ptrace/tracee.h"
#include "ptrace/wait_status.h"

namespace shadowprof::ptrace {

class ForwardProgress {
 public:
  // `registers` are as the kernel has stopped the thread, before anybody has changed them.
  void look(Tracee thread, const WaitStatus& status, const Registers& registers);
  bool wants_calls() const { return handler_ != Handler::none; }
  // What the program does with the signal that it goes on with.
  enum class Fate : uint8_t { no_signal, handled, ignored, other };
  std::optional<std::chrono::microseconds> begin_hold(Tracee thread, Fate fate);
  bool is_in_storm() const { return count_.is_storm(); }

 private:
  enum class Handler : uint8_t { none, runs, returns, has_returned };
  void end_hold(Tracee thread, const WaitStatus& status, const Registers& registers);
  void look_at_call(Tracee thread, const Registers& registers);
  void look_at_signal(const Registers& registers);

  Registers last_{};  // where it was when a signal stopped it, or when it was held
  StormCount count_;
  unsigned calls_ = 0;  // stops at system calls since the signal
  Handler handler_ = Handler::none;
  bool holding_ = false;
  bool hold_again_ = false;
  SignalMask own_mask_ = 0;  // while holding
};

}  // namespace shadowprof::ptrace
