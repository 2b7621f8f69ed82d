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
// Of the run, that the present replica may be behind; and of what is left of the budget, what
// another one may cost.
constexpr double kBehindShare = 0.05;
constexpr double kLeastBehind = 1.0;
constexpr double kNextShare = 0.5;
// Where another fork is paid for by this share of the budget within so much of the run, it rests,
// and is behind until that is so.
constexpr double kCheapShare = 0.5;
constexpr double kCheapWithin = 0.2;
constexpr double kLeastCheap = 3.0;
constexpr double kLeastBehindOfResting = 0.5;
constexpr double kLongestRest = 0.5;  // seconds
// What the program may lose beside one that works, unseen; and while that executes as much as the
// program does, as caches that they share hold two of each page that one of them has written to.
constexpr double kUnseen = 0.03;
constexpr double kUnseenForByte = 0.02e-6;
constexpr double kMostUnseenForBytes = 0.15;
// Seconds of the program's.
constexpr double kSample = 0.001;
constexpr double kLeastSample = 0.00025;
constexpr double kSampleOfLasting = 0.0005;
constexpr double kSampleOfResting = 0.0002;
constexpr double kLeastSampleOfResting = 0.0001;
constexpr double kLeastBetween = 0.003;
constexpr double kLongestBetween = 0.08;
constexpr double kLongestBetweenOfResting = 0.05;
// In seconds of the replica's: where samples take longer, they are shorter and further apart.
constexpr double kRecording = 0.01;
constexpr double kBetweenShare = 0.25;
// Of its time, that one that lasts may lose.
constexpr double kMayLose = 0.2;
// Samples: what recording takes goes by a few, what is lost by many.
constexpr uint64_t kRemembered = 12;
constexpr uint64_t kRememberedLosses = 200;
constexpr double kLookAgain = 0.05;  // seconds; at a shared core

}  // namespace

LaterSamples::LaterSamples(const GovernorOptions& options)
    : max_overhead_(options.max_overhead), load_(options.load), random_(options.seed) {}

void LaterSamples::begin(double pause) {
  pause_ = pause;
  last_age_ = recorded_before_ = executed_before_ = 0;
  works_ = true;
  is_replaced_ = false;
}

bool LaterSamples::may_last(double neighbour_cost) const {
  return load_ >= 1 && neighbour_cost <= kNeighbourShare * max_overhead_;
}

bool LaterSamples::would_rest(double slow_down) const {
  return slow_down > kNeighbourShare * max_overhead_;
}

bool LaterSamples::is_too_dear(double cost, double unspent) const {
  return cost > std::max({pause_, max_overhead_ * kBudgetOf, unspent});
}

bool LaterSamples::has_lived(const ReplicaState& replica) {
  const double stands_for = (pause_ + replica.cost) / max_overhead_;
  if (!replica.may_last) return replica.age > std::min(kLongest, load_ * stands_for);
  const bool takes_time = takes_its_time(replica);
  const double costs = takes_time ? replica.next_may_cost : replica.next_costs;
  const double most = takes_time ? std::max(kLeastBehindOfResting, time_paying_for(costs, replica))
                                 : std::max(kLeastBehind, kBehindShare * replica.whole_run);
  const bool makes_room =
      replica.behind() > most && costs < kNextShare * (replica.unspent - replica.cost);
  is_replaced_ = makes_room && !takes_time;
  return makes_room;
}

double LaterSamples::between(const ReplicaState& replica) const {
  if (!replica.may_last) return std::max(kLeastBetween, kBetweenShare * recording_);
  if (would_rest(replica.slow_down)) return kLeastBetween;
  return takes_its_time(replica) ? std::clamp(recording_, kLeastBetween, kLongestBetweenOfResting)
                                 : std::clamp(lost_ / kMayLose, kLeastBetween, kLongestBetween);
}

double LaterSamples::length(const ReplicaState& replica) const {
  const bool takes_time = takes_its_time(replica);
  if (replica.may_last && !takes_time) return kSampleOfLasting;
  const double least = takes_time ? kLeastSampleOfResting : kLeastSample;
  const double most = takes_time ? kSampleOfResting : kSample;
  return std::clamp(most * kRecording / recording_, least, most);
}

// The next one is cheaper than to keep up with the program.
bool LaterSamples::takes_its_time(const ReplicaState& replica) const {
  return replica.may_last && time_paying_for(replica.next_may_cost, replica) <
                                 std::max(kLeastCheap, kCheapWithin * replica.whole_run);
}

// By the share of the budget that is for cheap forks. Of the program's time: while it waits the
// replica does not fall behind.
double LaterSamples::time_paying_for(double cost, const ReplicaState& replica) const {
  const double busy = std::min(1.0, replica.whole_run / replica.elapsed);
  return busy * cost / (kCheapShare * max_overhead_);
}

double LaterSamples::rest_between(const ReplicaState& replica) const {
  if (!takes_its_time(replica)) return 0;
  const double for_bytes = std::min(kMostUnseenForBytes, kUnseenForByte * replica.next_copies);
  const double lost = kUnseen * worked_ + for_bytes * executed_;
  return stopped_at_ + std::min(lost / max_overhead_ - worked_, kLongestRest) - replica.age;
}

// After what it has executed since it went on, until that is paid for.
double LaterSamples::rest_at_shared_core(const ReplicaState& replica) {
  if (!replica.may_last || !would_rest(replica.slow_down)) return 0;
  if (!std::exchange(is_reckoned_, true)) {
    const double loss = worked_ * replica.slow_down;
    loss_ += loss;
    paid_for_ = stopped_at_ - worked_ + loss / (kNeighbourShare * max_overhead_);
  }
  return std::min(paid_for_ - replica.age, kLookAgain);
}

void LaterSamples::note_work(const ReplicaState& replica) {
  if (!std::exchange(works_, false)) return;
  worked_ = replica.age - last_age_;
  executed_ = replica.executed - std::exchange(executed_before_, replica.executed);
  stopped_at_ = replica.age;
  is_reckoned_ = false;
}

void LaterSamples::note_recording(const ReplicaState& replica) {
  const double recording = replica.recorded - std::exchange(recorded_before_, replica.recorded);
  if (recording <= 0) return;
  samples_++;
  recording_ += (recording - recording_) / static_cast<double>(std::min(samples_, kRemembered));
  lost_ += (worked_ - executed_ - lost_) / static_cast<double>(std::min(samples_, kRememberedLosses));
}

std::optional<shadow::NextSample> LaterSamples::next(const ReplicaState& replica) {
  note_work(replica);
  note_recording(replica);
  const bool has_given_enough = has_lived(replica) || is_too_dear(replica.cost, replica.unspent);
  const double rest = has_given_enough
                          ? replica.rest
                          : std::max(rest_at_shared_core(replica), rest_between(replica));
  if (rest > 0) return shadow::NextSample{.rest_s = rest};
  if (has_given_enough) return std::nullopt;
  works_ = true;
  last_age_ = replica.age;
  return shadow::NextSample{.native_s = between(replica) * jitter(random_),
                            .seconds = length(replica) * jitter(random_)};
}

}  // namespace shadowprof::sample
