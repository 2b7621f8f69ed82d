// SPDX-License-Identifier: MIT
//
// Processor time by the kernel's clock (clock/cpu_clock.h).
//
// The clock runs in windows with pauses of random length between them: ticks in even distances
// would be at the same place again and again of a program that does everything in rounds. A tick
// stands for the time since the window before.
//
// A tick costs a program an interrupt, and a window two. Ticks come as often as the clock's part of
// the budget pays for. Where threads have events of their own, each switch from or to one of them
// costs a timer, too. If the program switches so often that all of it takes more, the pauses are
// longer; and ticks come more often in the windows, until they cost about what the switches do.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "clock/cpu_clock.h"
#include "clock/time_account.h"
#include "sample/switch_rate.h"
#include "sample/time_source.h"

namespace shadowprof::sample {

class ClockWindows : public TimeSource {
 public:
  // `budget_share`: of the programs' time, that the clock may take. An Error says why there is no
  // clock.
  static Result<std::unique_ptr<ClockWindows>> open(double budget_share, uint64_t seed,
                                                    clock::TimeAccount& account);

  const char* name() const override { return "cpu-clock"; }
  bool sees_kernel() const override { return clock_.sees_kernel(); }
  bool has_equal_ticks() const override { return has_equal_ticks_; }
  uint64_t lost() const override { return clock_.lost(); }
  Status begin(Tid process, double now) override;
  void forget(Tid process) override { ended_.push_back(process); }
  double next() const override { return next_s_; }
  void look(double now) override;
  void end(double now) override;
  double take_cost() override;
  void set_budget(double share) override { budget_share_ = share; }
  const ProgramSchedule& schedule() const override { return schedule_; }

 private:
  ClockWindows(clock::CpuClock clock, double budget_share, uint64_t seed,
               clock::TimeAccount& account);

  void take();
  void weigh_switches(double now);
  void begin_window(double now);
  void end_window(double now);
  double window_s() const;
  void set_period(double switches_per_s);
  void leave_ended();

  double budget_share_;
  std::mt19937_64 random_;
  clock::CpuClock clock_;
  clock::TimeAccount& account_;
  const std::chrono::nanoseconds longest_period_;
  bool has_equal_ticks_ = true;
  bool has_begun_ = false;
  double next_s_ = std::numeric_limits<double>::infinity();
  double switches_looked_s_ = 0;
  double weighs_s_ = 0;  // again
  SwitchRate switches_;
  ProgramSchedule schedule_;
  std::vector<Tid> ended_;  // since the last window
  uint64_t lost_ = 0;       // when all that is mapped was read again
  double on_share_;      // of the time, that the clock runs
  double switch_s_ = 0;  // what it takes us to begin or end a window
  double window_began_s_ = 0;
  double last_window_end_s_ = 0;
  double cost_s_ = 0;  // since the last take_cost()
  uint64_t ticks_charged_ = 0;
};

}  // namespace shadowprof::sample
