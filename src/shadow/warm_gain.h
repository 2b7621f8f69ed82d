// SPDX-License-Identifier: MIT
//
// How much faster a program is than its replica, whose caches are cold: another core's, and used by
// others since the replica's last stretch. A native stretch of usual length is over before they are
// warm where the program walks through megabytes. So some are longer, and are counted twice: when
// the usual ones are, and when the caches are warm.
#pragma once

#include <cmath>
#include <cstdint>

namespace shadowprof::shadow {

class WarmGain {
 public:
  // One stretch's speeds, in instructions a second.
  void add(double usual, double warm) {
    if (!(usual > 0 && warm > 0)) return;
    const double log = std::log(warm / usual);
    stretches_++;
    sum_ += log;
    squares_ += log * log;
  }
  void operator+=(const WarmGain& more) {
    stretches_ += more.stretches_;
    sum_ += more.sum_;
    squares_ += more.squares_;
  }

  uint64_t stretches() const { return stretches_; }
  // The program's speed over that of usual stretches. 1 where it is not known to be more: a
  // program's parts differ, too.
  double ratio() const {
    if (stretches_ < kFewest) return 1;
    const auto n = static_cast<double>(stretches_);
    const double mean = sum_ / n;
    const double variance = std::fmax(0, squares_ / n - mean * mean) * n / (n - 1);
    return mean > kSureRatio * std::sqrt(variance / n) ? std::exp(mean) : 1;
  }

 private:
  static constexpr uint64_t kFewest = 3;
  static constexpr double kSureRatio = 2;  // a gain over its standard error

  uint64_t stretches_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace shadowprof::shadow
