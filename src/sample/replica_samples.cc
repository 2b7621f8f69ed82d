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

void ReplicaSamples::go_on(double executed, const shadow::ExecutorCounts& done) {
  if (executed - began_ < std::max(kObservation_s, kRunShare * (used_ + executed))) return;
  tell(done);
  began_ = executed;
  number_ = weights_.taken(program_, used_ + executed);
}

void ReplicaSamples::tell(const shadow::ExecutorCounts& done) {
  trace::CodeShares fresh{};
  for (size_t i = 0; i < fresh.size(); i++) fresh[i] = done.shares[i] - shares_[i];
  const collect::SampleSpeed recorded{static_cast<double>(done.plain_instructions), done.plain_s};
  const collect::SampleSpeed native{done.paced_instructions, done.paced_s};
  weights_.recorded(number_, done.instructions - instructions_, fresh,
                    {recorded - recorded_, native - native_});
  recorded_ = recorded;
  native_ = native;
  instructions_ = done.instructions;
  shares_ = done.shares;
}

}  // namespace shadowprof::sample
