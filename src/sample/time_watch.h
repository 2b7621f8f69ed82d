// SPDX-License-Identifier: MIT
//
// Processor time of the programs while they are sampled, by the kernel's clock (clock/cpu_clock.h).
// Where the kernel permits none the profile has no time, and why_not() says why.
//
// A tick costs a program an interrupt, and each switch from or to one of its threads a timer. Where
// both together would take more than a share of the budget, the clock runs for short windows only,
// at random distances; a tick stands for the time since the window before.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "clock/cpu_clock.h"
#include "clock/time_account.h"

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
  // Seconds that the programs are thought to have lost since the last call.
  double take_cost();
  // The times of the profile. `duration_s`: how long the programs were sampled.
  void finish(double duration_s, double program_cpu_s, profile::Profile& profile);

  const std::string& why_not() const { return why_not_; }

 private:
  void take(bool all);
  void weigh_switches(double now);
  void begin_window(double now);
  void end_window(double now);

  double budget_share_;
  std::mt19937_64 random_;
  std::optional<clock::CpuClock> clock_;
  clock::TimeAccount account_;
  std::string why_not_;
  Tid first_;  // the program that was given first
  double next_s_ = std::numeric_limits<double>::infinity();
  double switches_looked_s_ = 0;
  double weighs_s_ = 0;  // again
  uint64_t switches_ = 0;
  double on_share_ = 1;        // of the time, that the clock runs
  double window_began_s_ = 0;  // or the pause after it
  double last_window_end_s_ = 0;
  double cost_s_ = 0;
  uint64_t ticks_charged_ = 0;
  uint64_t cycles_at_begin_ = 0;
  double begun_s_ = 0;
};

}  // namespace shadowprof::sample
