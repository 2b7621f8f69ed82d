// SPDX-License-Identifier: MIT
#include "sample/replica_samples.h"

#include <doctest/doctest.h>

namespace shadowprof::sample {
namespace {

shadow::ExecutorCounts done(uint64_t instructions) {
  shadow::ExecutorCounts counts;
  counts.instructions = counts.shares[3] = instructions;
  return counts;
}

TEST_CASE("samples that follow one another at once are one observation") {
  collect::SampleWeights weights;
  ReplicaSamples samples(weights, 7, 20.0);
  const uint64_t first = samples.number();
  samples.go_on(0.02, done(100));
  CHECK(samples.number() == first);
  samples.go_on(0.15, done(300));
  CHECK(samples.number() == first + 1);
  samples.go_on(0.2, done(400));
  CHECK(samples.number() == first + 1);
  samples.end(done(1000));
  const auto& taken = weights.replicas().samples();
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].used == 20.0);
  CHECK(taken[0].instructions == 300);
  CHECK(taken[1].used == doctest::Approx(20.15));
  CHECK(taken[1].instructions == 700);
}

TEST_CASE("a replica without any instruction is no observation") {
  collect::SampleWeights weights;
  ReplicaSamples samples(weights, 7, 20.0);
  samples.end(done(0));
  CHECK(weights.replicas().size() == 0);
}

}  // namespace
}  // namespace shadowprof::sample
