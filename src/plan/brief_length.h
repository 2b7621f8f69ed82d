// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>

namespace shadowprof::plan {

// How long a sample without a fork is, at most: as long as it takes to stop the program for it and
// to let it go on. That is spent however short the sample is, and the program stands still for no
// more than twice that. Where that is soon done, for a millisecond with it.
class BriefLength {
 public:
  static constexpr double kShortest_s = 0.00075;
  static constexpr double kLongest_s = 0.005;

  // By the lesser of the last two: one that took long may have been kept waiting by others.
  double seconds() const {
    return std::clamp(std::min(last_s_, one_before_s_), kShortest_s, kLongest_s);
  }
  // Besides the sample itself.
  void stopping_took(double seconds) { one_before_s_ = std::exchange(last_s_, seconds); }

 private:
  double last_s_ = 0;
  double one_before_s_ = 0;
};

}  // namespace shadowprof::plan
