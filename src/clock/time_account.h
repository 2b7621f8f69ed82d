// SPDX-License-Identifier: MIT
//
// Adds up the ticks of a clock: by place in code and by thread. Nothing of it costs the program
// anything. Memory is bounded: beyond kMostRows pairs of place and thread new ones are counted to
// the thread only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "clock/clock_event.h"
#include "clock/code_map.h"
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

  uint64_t ticks() const { return ticks_; }
  // Rows and threads become the profile's. What the profile has of them already stays.
  void finish(profile::Profile& profile);

 private:
  struct Spent {
    uint64_t user_ns = 0;
    uint64_t kernel_ns = 0;
  };
  struct Thread {
    profile::ThreadRow row;
    std::map<profile::CodeRef, Spent> places;
  };

  void add(const Tick& tick);
  void read_maps(Tid process);
  Thread& thread_of(Tid process, Tid thread);

  double weight_ = 1;
  uint64_t ticks_ = 0;
  size_t rows_ = 0;
  profile::ModuleTable modules_;
  std::map<Tid, CodeMap> processes_;
  std::map<std::pair<Tid, Tid>, Thread> threads_;  // process, thread
};

}  // namespace shadowprof::clock
