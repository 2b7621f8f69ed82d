// SPDX-License-Identifier: MIT
#include "plan/convergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shadowprof::plan {
void Convergence::sampled(std::span<const uint64_t> instructions) {
  const auto sum =
      static_cast<double>(std::accumulate(instructions.begin(), instructions.end(), uint64_t{0}));
  if (sum <= 0) return;
  window_.resize(instructions.size());
  for (size_t i = 0; i < window_.size(); i++) {
    window_[i] += static_cast<double>(instructions[i]) / sum / kWindowSamples;
  }
  if (++in_window_ == kWindowSamples) end_window();
}

void Convergence::end_window() {
  if (windows_++ == 0) {
    known_ = window_;
  } else {
    double distance = 0;
    for (size_t i = 0; i < known_.size(); i++) distance += std::abs(window_[i] - known_[i]) / 2;
    last_distance_ = distance;
    const bool agrees = distance < kAgreesShare;
    const bool differs = distance > kDiffersShare;
    agreeing_ += agrees;
    changes_ += differs;
    in_a_row_ = agrees ? in_a_row_ + 1 : 0;
    if (differs) patience_ = 1;
    if (in_a_row_ >= kSteadyWindows)
      patience_ = std::min(kMostPartsRatio, kGrowthRatio * patience_);
    const double kept = differs ? 0 : kMemoryShare;
    for (size_t i = 0; i < known_.size(); i++) {
      known_[i] = kept * known_[i] + (1 - kept) * window_[i];
    }
  }
  window_.assign(window_.size(), 0);
  in_window_ = 0;
}

}  // namespace shadowprof::plan
