// SPDX-License-Identifier: MIT
#include "sample/governor.h"

#include <algorithm>

namespace shadowprof::sample {
namespace {

// The loading of a program is over by then, mostly.
constexpr double kFirstSample = 0.02;
constexpr double kFirstRetry = 0.005;
constexpr double kShortestGap = 0.0005;
// Lengths. The first samples of a program translate most of what they execute.
constexpr uint64_t kFirstLength = 10'000'000;
constexpr uint64_t kLeastLength = 1'000'000;
constexpr uint64_t kGreatestLength = 320'000'000;
constexpr double kMemory = 0.8;  // of the sums, from one sample to the next

}  // namespace

Governor::Governor(const GovernorOptions& options, const FaultPrice& price)
    : options_(options), price_(price), random_(options.seed), next_(options.delay), length_(kFirstLength) {
  next_ += kFirstSample * jitter();
}

// Around 1.
double Governor::jitter() {
  return std::uniform_real_distribution<double>(0.5, 1.5)(random_);
}

// Nothing is known of what one costs before the first has ended.
void Governor::began(double now) {
  pending_++;
  if (samples_ == 0) {
    next_ = now + kLongestRetry;
  } else {
    choose_next(now);
  }
}

void Governor::sampled(double now, const SampleCost& sample) {
  samples_++;
  pending_ -= pending_ != 0;
  missed_in_a_row_ = 0;
  pause_ += sample.pause;
  fault_cost_ += sample.faults_while_alive * price_.copied + sample.faults_afterwards * price_.kept;
  contention_ += sample.contention;
  log_ += sample.log;
  active_ += sample.lifetime;
  choose_next(now);
  choose_length(sample);
}

// The next sample is expected to be like the average one, and so are those that run.
void Governor::choose_next(double now) {
  const auto n = static_cast<double>(samples_);
  const double expected_cost = cost() / n;
  const double expected_life = active_ / n;
  const auto unfinished = static_cast<double>(pending_ + 1);
  const double by_budget = (cost() + unfinished * expected_cost) / options_.max_overhead;
  const double by_load = (active_ + unfinished * expected_life) / options_.load - expected_life;
  double earliest = std::max(by_budget, by_load) + options_.delay;
  if (options_.frequency > 0) earliest = std::max(earliest, now + 1 / options_.frequency);
  // What has been saved is not spent at once.
  const double pace = std::max(expected_cost / options_.max_overhead, expected_life / options_.load);
  if (patience_ > 1) earliest = std::max(earliest, now + patience_ * pace - expected_life);
  const double gap = std::max(earliest - now, kShortestGap);
  next_ = now + gap * jitter();
}

void Governor::choose_length(const SampleCost& sample) {
  if (sample.instructions == 0) return;
  recent_ = kMemory * recent_ + 1;
  fixed_ = kMemory * fixed_ + sample.pause + sample.faults_afterwards * price_.kept;
  growing_ = kMemory * growing_ + sample.faults_while_alive * price_.copied +
             sample.contention + sample.log;
  instructions_ = kMemory * instructions_ + static_cast<double>(sample.instructions);
  const double most = std::min(2.0 * static_cast<double>(length_), double{kGreatestLength});
  const double balanced = growing_ > 0 ? fixed_ / recent_ / (growing_ / instructions_) : most;
  length_ = static_cast<uint64_t>(std::clamp(balanced, double{kLeastLength}, most));
}

void Governor::missed(double now, double longest) {
  const double wait = std::min(longest, kFirstRetry * (1u << std::min(missed_in_a_row_, 8u)));
  missed_in_a_row_++;
  next_ = now + wait * jitter();
}

}  // namespace shadowprof::sample
