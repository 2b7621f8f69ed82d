// SPDX-License-Identifier: MIT
//
// How far full mode is, for whoever looks at the terminal: how many instructions were executed up
// to now, and how many in a second of late.
//
//   program's threads ──counters──▶ SpaceKeeper::instructions_so_far() ─┐
//   EdgeCollector ──so_far──────────────────────────────────────────────┴▶ look() ──▶ Progress
//
// The tracer waits for the program, which may stop for nothing for hours: a timer interrupts that
// wait, SIGPROF for the tracer's thread alone. So it also hears of a signal to us that came just
// before it began to wait. Without a line on a terminal nothing is asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/thread_timer.h"

namespace shadowprof::sample {

class FullProgress {
 public:
  // By the thread that waits. `so_far`: 0 where it is not known.
  explicit FullProgress(std::function<uint64_t()> so_far);
  // Whenever the wait was over.
  void look();
  // The program has ended.
  void ended() { progress_.set("counts to tables, and names"); }

 private:
  std::function<uint64_t()> so_far_;
  Progress progress_{"all of the program under the translator"};
  std::optional<ThreadTimer> timer_;
  std::chrono::steady_clock::time_point looked_;
  uint64_t before_ = 0;
  double per_s_ = 0;
};

// "12.3 million".
std::string count_in_words(double count);

}  // namespace shadowprof::sample
