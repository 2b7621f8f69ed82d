// SPDX-License-Identifier: MIT
//
// Adds up the ticks of a clock: by place in code and by thread, and by moment (time_course.h).
// Nothing of it costs the program anything. Memory is bounded: beyond kMostRows pairs of place and
// thread new ones are counted to the thread only.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/code_cells.h"
#include "base/elapsed.h"
#include "clock/clock_event.h"
#include "clock/code_map.h"
#include "clock/time_course.h"
#include "profile/profile.h"

namespace shadowprof::clock {

class TimeAccount {
 public:
  static constexpr size_t kMostRows = 1 << 20;

  // Its ticks count from here on; what it has mapped now is read from /proc.
  void begin(Tid process);
  void add(const ClockEvent& event);
  // While the clock was paused part of the time: how much each tick stands for.
  void weigh(double weight) { weight_ = weight; }

  // For who is not told what happens to mappings and names.
  void read_maps(Tid process);
  void read_all_maps();
  bool knows(Tid process, GuestAddr at) const;
  // A thread that is known has another name, perhaps.
  void look_at_name(Tid process, Tid thread);

  uint64_t ticks() const { return ticks_; }
  // Those in user mode, by regions of code; as many of equal weight as say as much.
  std::array<double, kCodeRegions> equal_ticks_by_region() const;
  // As many ticks of equal weight say as much of shares: where weights differ, fewer.
  uint64_t equal_ticks() const;
  // The ticks of a thread, or of a process, stand for so much together.
  void scale_to(Tid process, Tid thread, double seconds);
  void scale_to(Tid process, double seconds);
  // Rows and threads become the profile's. What the profile has of them already stays.
  void finish(profile::Profile& profile);

 private:
  struct Thread {
    profile::ThreadRow row;
    double squares_s2 = 0;  // of its ticks
    double seconds() const { return 1e-9 * static_cast<double>(row.user_ns + row.kernel_ns); }
    void scale(double factor);
    std::map<profile::CodeRef, Spent> places;
  };

  void add(const Tick& tick, uint64_t at_ns);
  void scale(std::pair<Tid, Tid> ids, double factor);
  Thread& thread_of(Tid process, Tid thread);

  double weight_ = 1;
  uint64_t ticks_ = 0;
  std::array<uint64_t, kCodeRegions> user_ns_by_region_{};
  size_t rows_ = 0;
  profile::ModuleTable modules_;
  std::map<Tid, CodeMap> processes_;
  std::map<std::pair<Tid, Tid>, Thread> threads_;  // process, thread
  TimeCourse course_{monotonic_ns()};
};

}  // namespace shadowprof::clock
