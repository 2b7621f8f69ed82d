// SPDX-License-Identifier: MIT
#include "sample/convergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shadowprof::sample {
namespace {

constexpr size_t kWindow = 8;  // samples
constexpr double kAgrees = 0.05;
constexpr double kDiffers = 0.25;
constexpr uint64_t kSteady = 3;  // windows in a row that agree before fewer samples are taken
constexpr double kGrowth = 1.25;
constexpr double kMemory = 0.75;  // of what is known, from one window to the next

}  // namespace

void Convergence::sampled(const trace::CodeShares& instructions) {
  const auto sum = static_cast<double>(
      std::accumulate(instructions.begin(), instructions.end(), uint64_t{0}));
  if (sum <= 0) return;
  for (size_t i = 0; i < window_.size(); i++) {
    window_[i] += static_cast<double>(instructions[i]) / sum / kWindow;
  }
  if (++in_window_ == kWindow) end_window();
}

void Convergence::end_window() {
  if (windows_++ == 0) {
    known_ = window_;
  } else {
    double distance = 0;
    for (size_t i = 0; i < known_.size(); i++) distance += std::abs(window_[i] - known_[i]) / 2;
    last_distance_ = distance;
    const bool agrees = distance < kAgrees;
    const bool differs = distance > kDiffers;
    agreeing_ += agrees;
    changes_ += differs;
    in_a_row_ = agrees ? in_a_row_ + 1 : 0;
    if (differs) patience_ = 1;
    if (in_a_row_ >= kSteady) patience_ = std::min(kMostPatience, kGrowth * patience_);
    const double kept = differs ? 0 : kMemory;
    for (size_t i = 0; i < known_.size(); i++) {
      known_[i] = kept * known_[i] + (1 - kept) * window_[i];
    }
  }
  window_ = {};
  in_window_ = 0;
}

}  // namespace shadowprof::sample
