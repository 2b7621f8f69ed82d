// SPDX-License-Identifier: MIT
#include "sample/later_samples.h"

#include <algorithm>

namespace shadowprof::sample {
namespace {

constexpr double kLongest = 2.0;  // seconds, in which a replica gives samples
constexpr double kBudgetOf = 1.0;
// Of one sample, and of the time until the next one, in seconds of the program's.
constexpr double kSample = 0.001;
constexpr double kBetween = 0.003;

}  // namespace

LaterSamples::LaterSamples(const GovernorOptions& options, double pause, uint64_t seed)
    : random_(seed), max_overhead_(options.max_overhead), load_(options.load), pause_(pause) {}

std::optional<shadow::NextSample> LaterSamples::next(double age, double cost) {
  const double stands_for = (pause_ + cost) / max_overhead_;
  const double most = std::max(pause_, max_overhead_ * kBudgetOf);
  if (age > std::min(kLongest, load_ * stands_for) || cost > most) return std::nullopt;
  std::uniform_real_distribution<double> jitter(0.5, 1.5);
  return shadow::NextSample{kBetween * jitter(random_), kSample * jitter(random_)};
}

}  // namespace shadowprof::sample
