// SPDX-License-Identifier: MIT
#include "sample/governor.h"

#include <algorithm>

namespace shadowprof::sample {
namespace {

// The loading of a program is over by then, mostly.
constexpr double kFirstSample = 0.02;
constexpr double kFirstRetry = 0.005;
constexpr double kLongestRetry = 0.5;
constexpr double kShortestGap = 0.0005;

}  // namespace

Governor::Governor(const GovernorOptions& options, const FaultPrice& price)
    : options_(options), price_(price), random_(options.seed), next_(options.delay) {
  next_ += kFirstSample * jitter();
}

// Around 1.
double Governor::jitter() {
  return std::uniform_real_distribution<double>(0.5, 1.5)(random_);
}

void Governor::sampled(double now, const SampleCost& sample) {
  samples_++;
  missed_in_a_row_ = 0;
  pause_ += sample.pause;
  fault_cost_ += sample.faults_while_alive * price_.copied + sample.faults_afterwards * price_.kept;
  contention_ += sample.contention;
  active_ += sample.lifetime;
  // The next sample is expected to be like the average one.
  const auto n = static_cast<double>(samples_);
  const double expected_cost = cost() / n;
  const double expected_life = active_ / n;
  const double by_budget = (cost() + expected_cost) / options_.max_overhead;
  const double by_load = (active_ + expected_life) / options_.load - expected_life;
  double earliest = std::max(by_budget, by_load) + options_.delay;
  if (options_.frequency > 0) earliest = std::max(earliest, now + 1 / options_.frequency);
  const double gap = std::max(earliest - now, kShortestGap);
  next_ = now + gap * jitter();
}

void Governor::missed(double now) {
  const double wait = std::min(kLongestRetry, kFirstRetry * (1u << std::min(missed_in_a_row_, 8u)));
  missed_in_a_row_++;
  next_ = now + wait * jitter();
}

}  // namespace shadowprof::sample
