// SPDX-License-Identifier: MIT
//
// Whether a replica had its core to itself. Where other virtual machines use the host's cores, too,
// one that is idle most of the time is shared more often than the program's: a third of perl's
// stretches there had two thirds of its speed. A check is some code that does nothing
// (CodeCache::pace_check_address), and how long it took.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shadowprof::shadow {

class PaceChecks {
 public:
  // A check took so many ticks of the clock. Where nearly all were disturbed, none is told from
  // them.
  bool was_undisturbed(uint32_t ticks) {
    sorted_.insert(std::ranges::upper_bound(sorted_, ticks), ticks);
    const double usual = sorted_[sorted_.size() / kOneIn];
    if (sorted_.size() == kMost) thin_out();
    return ticks <= kAlikeRatio * usual;
  }

 private:
  void thin_out() {
    for (size_t i = 0; i < kMost / 2; i++) sorted_[i] = sorted_[2 * i];
    sorted_.resize(kMost / 2);
  }

  static constexpr size_t kMost = 512;
  // Who is undisturbed is so in one check of so many, at least.
  static constexpr size_t kOneIn = 20;
  // Checks of an undisturbed core differ by a quarter, and take half as long again where another
  // thread uses it.
  static constexpr double kAlikeRatio = 1.5;
  std::vector<uint32_t> sorted_;
};

}  // namespace shadowprof::shadow
