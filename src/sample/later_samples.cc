// SPDX-License-Identifier: MIT
#include "sample/later_samples.h"

#include <algorithm>

#include "sample/jitter.h"

namespace shadowprof::sample {
namespace {

constexpr double kLongest = 2.0;  // seconds, in which a replica gives samples
constexpr double kBudgetOf = 1.0;
// Seconds of the program's.
constexpr double kSample = 0.001;
constexpr double kLeastSample = 0.00025;
constexpr double kLeastBetween = 0.003;
// In seconds of the replica's: where samples take longer, they are shorter and further apart.
constexpr double kRecording = 0.01;
constexpr double kBetweenShare = 0.25;

}  // namespace

LaterSamples::LaterSamples(const GovernorOptions& options)
    : max_overhead_(options.max_overhead), load_(options.load), random_(options.seed) {}

void LaterSamples::begin(double pause) {
  pause_ = pause;
  last_age_ = last_native_ = 0;
}

bool LaterSamples::is_too_dear(double cost) const {
  return cost > std::max(pause_, max_overhead_ * kBudgetOf);
}

std::optional<shadow::NextSample> LaterSamples::next(double age, double cost) {
  samples_++;
  recording_ += std::max(0.0, age - last_age_ - last_native_);
  const double stands_for = (pause_ + cost) / max_overhead_;
  if (age > std::min(kLongest, load_ * stands_for) || is_too_dear(cost)) return std::nullopt;
  last_age_ = age;
  const double recording = recording_ / samples_;
  const double length = std::clamp(kSample * kRecording / recording, kLeastSample, kSample);
  last_native_ = std::max(kLeastBetween, kBetweenShare * recording) * jitter(random_);
  return shadow::NextSample{last_native_, length * jitter(random_)};
}

}  // namespace shadowprof::sample
