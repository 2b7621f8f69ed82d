// SPDX-License-Identifier: MIT
//
// Do samples still change the profile? A program that goes on doing the same is known after some of
// them: then fewer are taken. When it begins to do something else, they are as many as before.
//
// Code is hashed into a few dozen regions. Samples are compared as windows of several, because a
// single one sees one moment. The distance of two windows is half the sum of the differences of
// their regions' shares: 0, the same code; 1, nothing in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_limits.h"

namespace shadowprof::plan {

class Convergence {
 public:
  // Instructions of a sample, by region; always as many regions. A sample without any says nothing.
  void sampled(std::span<const uint64_t> instructions);

  // So many times less often than the budget allows are samples needed: 1 to kMostPartsRatio.
  double patience() const { return patience_; }
  uint64_t windows() const { return windows_; }
  uint64_t agreeing() const { return agreeing_; }  // windows that were like what was before
  uint64_t changes() const { return changes_; }    // windows that were not at all
  double last_distance() const { return last_distance_; }

 private:
  // Windows, and when two of them are of the same code.
  static constexpr size_t kWindowSamples = 8;
  static constexpr double kAgreesShare = 0.05;
  static constexpr double kDiffersShare = 0.25;
  static_assert(kAgreesShare < kDiffersShare);
  static constexpr uint64_t kSteadyWindows = 3;
  static constexpr double kMemoryShare = 0.75;  // of what is known, from one window to the next

  void end_window();

  std::vector<double> window_;
  size_t in_window_ = 0;
  std::vector<double> known_;  // decaying mean of windows
  double patience_ = 1;
  uint64_t windows_ = 0;
  uint64_t agreeing_ = 0;
  uint64_t changes_ = 0;
  uint64_t in_a_row_ = 0;
  double last_distance_ = 1;
};

}  // namespace shadowprof::plan
