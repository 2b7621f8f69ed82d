// SPDX-License-Identifier: MIT
//
// Processor time of the programs while they are sampled, by the kernel's clock (clock/cpu_clock.h).
// Where the kernel permits none the profile has no time, and why_not() says why.
//
// The clock runs in windows with pauses of random length between them: ticks in even distances
// would be at the same place again and again of a program that does everything in rounds. A tick
// stands for the time since the window before.
//
// A tick costs a program an interrupt, a window two, and each switch from or to one of its threads
// a timer. Ticks come as often as the clock's part of the budget pays for. Where the program
// switches so often that all of it takes more, the pauses are longer.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "clock/cpu_clock.h"
#include "clock/time_account.h"
#include "kernel/proc.h"

namespace shadowprof::sample {

class TimeWatch {
 public:
  TimeWatch(double max_overhead, uint64_t seed);

  // A program that is sampled from now on.
  void begin(Tid process, double now);
  // When look() is to be called again.
  double next() const { return next_s_; }
  // Takes what has happened; begins and ends windows.
  void look(double now);
  // They are no longer sampled.
  void end(double now);
  // Seconds that the programs are thought to have lost since the last call.
  double take_cost();
  // The times of the profile. `duration_s`: how long the programs were sampled.
  void finish(double duration_s, double program_cpu_s, profile::Profile& profile);

  const std::string& why_not() const { return why_not_; }

 private:
  void take();
  void look_at_schedule();
  void weigh_switches(double now);
  void begin_window(double now);
  void end_window(double now);
  double window_s() const;

  double budget_share_;
  std::mt19937_64 random_;
  std::chrono::nanoseconds period_;
  std::optional<clock::CpuClock> clock_;
  clock::TimeAccount account_;
  std::string why_not_;
  Tid first_;  // the program that was given first
  double next_s_ = std::numeric_limits<double>::infinity();
  double switches_looked_s_ = 0;
  double weighs_s_ = 0;  // again
  kernel::ScheduleTimes schedule_at_begin_;
  kernel::ScheduleTimes schedule_;  // of the first thread, when it was looked at last
  double on_share_;      // of the time, that the clock runs
  double switch_s_ = 0;  // what it takes us to begin or end a window
  double window_began_s_ = 0;
  double last_window_end_s_ = 0;
  double cost_s_ = 0;  // since the last take_cost()
  uint64_t ticks_charged_ = 0;
  uint64_t cycles_at_begin_ = 0;
};

}  // namespace shadowprof::sample
