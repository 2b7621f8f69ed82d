// SPDX-License-Identifier: MIT
//
// Whether signals come faster than a thread gets on, and how long a moment it has for itself then.
//
//   note()         at each signal that stops it
//   is_storm()     it gets a moment of its own behind the next handler, of moment()
//   begins()       the moment
//   has_run()      the moment is over: it has executed code of its own, wherever it is
//   lengthen()     it has not: whether it gets another moment at once, twice as long
//   end_moments()  it has got on, or something else has ended the moment
#pragma once

#include <chrono>
#include <cstdint>

#include "kernel/proc.h"

namespace shadowprof::ptrace {

class StormCount {
 public:
  using Clock = std::chrono::steady_clock;

  void note(bool is_where_the_last_was, Clock::time_point now = Clock::now()) {
    same_places_ = is_where_the_last_was ? same_places_ + 1 : 0;
    const bool is_new = now - last_storm_ > kForgotten;
    if (same_places_ >= (is_new ? kLongestQueue : kSamePlaces)) {
      left_ = kStormSignals;
      last_storm_ = now;
    } else if (left_ != 0) {
      left_--;
    }
  }
  bool is_storm() const { return left_ != 0; }

  std::chrono::microseconds moment() const { return kMoment * (1u << rounds_); }
  void begins(Tid thread) { used_ns_ = kernel::schedule_times_of(thread).used; }
  // A loop that waits for a word of memory is where it was, with the same registers; the processor
  // time that it has used tells. To go on and to stop takes some microseconds of that.
  bool has_run(Tid thread) const {
    const std::chrono::nanoseconds used(kernel::schedule_times_of(thread).used - used_ns_);
    return used >= moment() / 2;
  }
  // It may have waited for a processor all the time.
  bool lengthen() {
    if (rounds_ == kMostRounds) return false;
    rounds_++;
    return true;
  }
  void end_moments() { rounds_ = 0; }

 private:
  // A moment takes longer than a delivery: so many signals in one place make a storm, and so many
  // others end it.
  static constexpr unsigned kSamePlaces = 8;
  static constexpr unsigned kStormSignals = 16;
  static constexpr std::chrono::microseconds kMoment{40};
  static constexpr unsigned kMostRounds = 8;
  // A queue of signals comes as fast when it is let in, but has an end. So the first storm for some
  // time takes more of them.
  static constexpr unsigned kLongestQueue = 256;
  static constexpr std::chrono::seconds kForgotten{1};

  Clock::time_point last_storm_{};
  unsigned same_places_ = 0;  // signals in a row that came right where the one before did
  unsigned left_ = 0;         // signals until the storm is taken to be over
  unsigned rounds_ = 0;       // moments in a row in which it has not executed anything
  uint64_t used_ns_ = 0;      // when the moment began
};

}  // namespace shadowprof::ptrace
