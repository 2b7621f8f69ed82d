// SPDX-License-Identifier: MIT
//
// Timers of a program whose time is a virtual clock's: setitimer(2), alarm(2), timer_create(2) and
// timerfd_create(2). The kernel does not run them: when the virtual clock has passed one, whoever
// asks take_expired() does what is due (program_timers.h).
//
// Those of processor time (`of_work`) expire by what all threads have executed, as the clocks of
// processor time say it; moments and lengths are nanoseconds of the clock that they follow.
#pragma once

#include <compare>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/types.h"
#include "machine/virtual_clock.h"

namespace shadowprof::inject {

struct TimerName {
  // interval: of setitimer, by its first argument; posix: by its id in the process; descriptor: by
  // its mark (timer_descriptor.h), whoever has it open.
  enum class Kind : uint8_t { interval, posix, descriptor };
  Kind kind = Kind::interval;
  int32_t process = 0;
  int number = 0;

  friend auto operator<=>(const TimerName&, const TimerName&) = default;
};

// What a signal of a timer is like.
struct TimerEvent {
  int signal = 0;  // 0: none is sent
  Tid thread;      // that one alone; 0: whichever the kernel chooses
  sigval value{};
};

// As timer_settime(2) has it: 0 is disarmed, and no interval.
struct TimerSetting {
  uint64_t left_ns = 0;
  uint64_t interval_ns = 0;
};

struct VirtualTimer {
  clockid_t clock = CLOCK_MONOTONIC;
  bool of_work = false;
  TimerEvent event;
  uint64_t until_ns = 0;  // 0: disarmed
  uint64_t interval_ns = 0;
  uint64_t again_ns = 0;  // nobody need look before, though it expires
  uint64_t armed = 0;     // a number; of two that expire at one moment the lower one is first
  uint64_t overruns = 0;  // of its last signal
  Tid holder;             // descriptor: who has set it, and under which number
  int descriptor = -1;
};

class VirtualTimers {
 public:
  static constexpr uint64_t kLeastStep_ns = 100'000;

  struct Expiry {
    TimerName name;
    VirtualTimer timer;  // as it was
    uint64_t times = 1;
  };

  // Disarmed; one of that name is forgotten.
  VirtualTimer& add(const TimerName& name, const VirtualTimer& timer) {
    return timers_[name] = timer;
  }
  VirtualTimer* find(const TimerName& name);
  void remove(const TimerName& name) { timers_.erase(name); }

  // What the clock that it follows says.
  static uint64_t now_ns(const VirtualTimer& timer, const machine::VirtualClock& clock);
  // Until a moment of its clock; 0 disarms it.
  void arm(VirtualTimer& timer, uint64_t until_ns, uint64_t interval_ns);
  static TimerSetting setting(const VirtualTimer& timer, const machine::VirtualClock& clock);

  bool any_armed() const;
  // So many timers of the process, armed or not, send that signal.
  size_t with_signal(Tid process, int signal) const;
  // One for a descriptor's timer that is armed now.
  int next_mark(int most) {
    return 1 + static_cast<int>(marks_++ % static_cast<uint64_t>(most - 1));
  }
  // When to look at those again that do not follow processor time, on the virtual clock: when the
  // first of them expires, but not more often than kLeastStep_ns for the sake of a short interval.
  std::optional<uint64_t> first_ns() const;
  // The least that one has left, of its own clock.
  std::optional<uint64_t> least_left_ns(const machine::VirtualClock& clock) const;
  // Those that the clock has passed, the earliest first; one with an interval is armed again.
  std::vector<Expiry> take_expired(const machine::VirtualClock& clock);
  // Its own ones, and those of descriptors that it has set.
  std::vector<Expiry> armed_of(Tid process) const;

  // The process has executed another program: that keeps its interval timers, and what is open.
  void executed(Tid process);
  void ended(Tid process);

 private:
  std::map<TimerName, VirtualTimer> timers_;
  uint64_t arms_ = 0;
  uint64_t marks_ = 0;
};

}  // namespace shadowprof::inject
