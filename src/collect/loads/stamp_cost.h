// SPDX-License-Identifier: MIT
//
// What a pair of time stamps takes without a load between them (trace::SlotKind::stamps), at
// present and on the core that is recorded: the running mean of the last ones. Whoever else uses
// that core makes them slower, and timed loads by as much.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/types.h"
#include "profile/tables/latency_table.h"

namespace shadowprof::collect {

class StampCost {
 public:
  // The records that follow are that one's. Another thread may have another core.
  void begin(Tid thread) {
    if (thread == thread_) return;
    *this = StampCost();
    thread_ = thread;
  }
  void note(uint32_t elapsed) {
    if (elapsed > kMostCycles) return;  // an interruption
    count_ = std::min(count_ + 1, kLastPairs);
    const double off = elapsed - mean_;
    mean_ += off / count_;
    if (count_ > 1) noise_ += (std::abs(off) - noise_) / (count_ - 1);
  }
  // The mean; `usual`, which they took when the host was calibrated, where none was noted.
  double cycles(double usual) const { return count_ == 0 ? usual : mean_; }
  // How far single ones are off from it, in the mean.
  double noise() const { return noise_; }
  // One time of a load does not tell the first two caches apart. The mean of many does.
  bool hides_first_caches(const profile::LatencyCalibration& clock) const {
    return !clock.tells_first_caches() ||
           noise_ > kMostNoiseShare * (clock.typical[1] - clock.typical[0]);
  }

 private:
  static constexpr double kLastPairs = 16;
  static constexpr uint32_t kMostCycles = 1000;  // 48 are usual
  static constexpr double kMostNoiseShare = 0.25;  // of what they are apart

  Tid thread_;
  double count_ = 0, mean_ = 0, noise_ = 0;
};

// The time between two stamps.
inline uint32_t elapsed_at(const uint32_t* stamps) {
  return stamps[1] - stamps[0];
}

}  // namespace shadowprof::collect
