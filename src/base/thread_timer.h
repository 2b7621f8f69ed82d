// SPDX-License-Identifier: MIT
//
// Signals for the thread that asks for them, and for no other, by the clock.
#pragma once

#include <ctime>

namespace shadowprof {

// From now on the calling thread takes that signal, and calls in which it waits end with EINTR.
void take_interruptions(int signal, void (*handler)(int));

// The signal's handler must be there before, and stay: a signal may be on its way when this ends.
class ThreadTimer {
 public:
  explicit ThreadTimer(int signal);
  ~ThreadTimer();
  ThreadTimer(const ThreadTimer&) = delete;
  ThreadTimer& operator=(const ThreadTimer&) = delete;

  void once_in(long nanoseconds) { set(nanoseconds, 0); }
  void every(long nanoseconds) { set(nanoseconds, nanoseconds); }

 private:
  void set(long first_ns, long period_ns);

  timer_t timer_{};
};

}  // namespace shadowprof
