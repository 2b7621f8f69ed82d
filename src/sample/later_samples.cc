// SPDX-License-Identifier: MIT
#include "sample/later_samples.h"

#include <algorithm>
#include <utility>

#include "sample/jitter.h"

namespace shadowprof::sample {
namespace {

// Seconds, in which a replica gives samples that may not last.
constexpr double kLongest = 2.0;
constexpr double kBudgetOf = 1.0;
// Of the budget, what the neighbourhood of one that lasts may cost.
constexpr double kNeighbourShare = 0.8;
// Of the run, that the present replica may be behind; and of what is left of the budget, what another one
// may cost.
constexpr double kBehindShare = 0.05;
constexpr double kLeastBehind = 1.0;
constexpr double kNextShare = 0.5;
// Seconds of the program's.
constexpr double kSample = 0.001;
constexpr double kLeastSample = 0.00025;
constexpr double kLeastBetween = 0.003;
// In seconds of the replica's: where samples take longer, they are shorter and further apart.
constexpr double kRecording = 0.01;
constexpr double kBetweenShare = 0.25;
constexpr double kBetweenShareOfLasting = 3;
constexpr double kLongestBetween = 0.05;
constexpr double kMostHurry = 3;
constexpr uint64_t kRemembered = 12;  // samples
constexpr double kLookAgain = 0.05;  // seconds; at a slow core

// 1: as far as it may be.
double far_behind(const ReplicaState& replica) {
  return replica.behind() / std::max(1e-9, kBehindShare * replica.whole_run);
}

}  // namespace

LaterSamples::LaterSamples(const GovernorOptions& options)
    : max_overhead_(options.max_overhead), load_(options.load), random_(options.seed) {}

void LaterSamples::begin(double pause) {
  pause_ = pause;
  last_age_ = last_native_ = 0;
  rested_ = false;
}

bool LaterSamples::may_last(double neighbour_cost) const {
  return load_ >= 1 && neighbour_cost <= kNeighbourShare * max_overhead_;
}

bool LaterSamples::is_too_dear(double cost, double unspent) const {
  return cost > std::max({pause_, max_overhead_ * kBudgetOf, unspent});
}

bool LaterSamples::has_lived(const ReplicaState& replica) const {
  const double stands_for = (pause_ + replica.cost) / max_overhead_;
  if (!replica.may_last) return replica.age > std::min(kLongest, load_ * stands_for);
  const bool is_paid_for = replica.next_costs < kNextShare * (replica.unspent - replica.cost);
  return is_paid_for && replica.behind() > kLeastBehind && far_behind(replica) > 1;
}

double LaterSamples::between(const ReplicaState& replica) const {
  if (!replica.may_last) return std::max(kLeastBetween, kBetweenShare * recording_);
  if (replica.slow_down > 0) return kLeastBetween;
  const double usual = std::min(kLongestBetween, kBetweenShareOfLasting * recording_);
  return std::max(kLeastBetween, usual * std::clamp(far_behind(replica), 1.0, kMostHurry));
}

// On a slow core: after what it has executed since it went on, until that is paid for.
double LaterSamples::rest_at_slow_core(const ReplicaState& replica) {
  if (!replica.may_last || replica.slow_down == 0) return 0;
  if (!rested_) {
    const double worked = replica.age - last_age_;
    paid_for_ = replica.age + worked * (replica.slow_down / (kNeighbourShare * max_overhead_) - 1);
  }
  return std::clamp(paid_for_ - replica.age, 0.0, kLookAgain);
}

void LaterSamples::note_recording(const ReplicaState& replica) {
  if (std::exchange(rested_, false)) return;
  samples_++;
  const double recording = std::max(0.0, replica.age - last_age_ - last_native_);
  recording_ += (recording - recording_) / static_cast<double>(std::min(samples_, kRemembered));
}

std::optional<shadow::NextSample> LaterSamples::next(const ReplicaState& replica) {
  const double rest = rest_at_slow_core(replica);
  note_recording(replica);
  const bool has_given_enough = has_lived(replica) || is_too_dear(replica.cost, replica.unspent);
  if (has_given_enough && replica.rest <= 0) return std::nullopt;
  if (has_given_enough || rest > 0) {
    rested_ = true;
    return shadow::NextSample{.rest_s = has_given_enough ? replica.rest : rest};
  }
  last_age_ = replica.age;
  const double length = std::clamp(kSample * kRecording / recording_, kLeastSample, kSample);
  last_native_ = between(replica) * jitter(random_);
  return shadow::NextSample{.native_s = last_native_, .seconds = length * jitter(random_)};
}

}  // namespace shadowprof::sample
