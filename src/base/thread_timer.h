// SPDX-License-Identifier: MIT
//
// Signals for the thread that asks for them, and for no other, by the clock.
#pragma once

#include <ctime>
#include <optional>
#include <utility>

#include "base/result.h"

namespace shadowprof {

// From now on the calling thread takes that signal, and calls in which it waits end with EINTR.
void take_interruptions(int signal, void (*handler)(int));

// The signal's handler must be there before, and stay: a signal may be on its way when this ends.
class ThreadTimer {
 public:
  // For the calling thread, and not running yet. An Error: the kernel counts each timer as a
  // pending signal of the user, and there are too many (timer_create(2), RLIMIT_SIGPENDING).
  static Result<ThreadTimer> create(int signal);
  ThreadTimer(ThreadTimer&& other) noexcept : timer_(std::exchange(other.timer_, std::nullopt)) {}
  ThreadTimer& operator=(ThreadTimer&&) = delete;
  ~ThreadTimer();

  void once_in(long nanoseconds) { set(nanoseconds, 0); }
  void every(long nanoseconds) { set(nanoseconds, nanoseconds); }

 private:
  explicit ThreadTimer(timer_t timer) : timer_(timer) {}
  void set(long first_ns, long period_ns);

  std::optional<timer_t> timer_;
};

}  // namespace shadowprof
