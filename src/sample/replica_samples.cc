// SPDX-License-Identifier: MIT
#include "sample/replica_samples.h"

#include <algorithm>

namespace shadowprof::sample {
namespace {

constexpr double kObservation_s = 0.1;
constexpr double kRunShare = 0.001;

}  // namespace

ReplicaSamples::ReplicaSamples(collect::SampleWeights& weights, int64_t program, double used)
    : weights_(weights), program_(program), used_(used), number_(weights.taken(program, used)) {}

void ReplicaSamples::go_on(double executed, const shadow::ExecutorCounts& done, double seconds) {
  if (executed - began_ < std::max(kObservation_s, kRunShare * (used_ + executed))) return;
  tell(done, seconds);
  began_ = executed;
  number_ = weights_.taken(program_, used_ + executed);
}

void ReplicaSamples::tell(const shadow::ExecutorCounts& done, double seconds) {
  trace::CodeShares fresh{};
  for (size_t i = 0; i < fresh.size(); i++) fresh[i] = done.shares[i] - shares_[i];
  weights_.recorded(number_, done.instructions - instructions_, fresh, seconds - seconds_);
  seconds_ = seconds;
  instructions_ = done.instructions;
  shares_ = done.shares;
}

}  // namespace shadowprof::sample
