// SPDX-License-Identifier: MIT
#include "collect/sample_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

namespace {

using shadowprof::collect::SampleWeights;

struct Taken {
  int64_t program;
  double used;
  uint64_t instructions;
};

SampleWeights weights_of(std::initializer_list<Taken> samples) {
  SampleWeights weights;
  for (const Taken& s : samples) weights.recorded(weights.taken(s.program, s.used), s.instructions);
  weights.conclude();
  return weights;
}

double ratio(const SampleWeights& weights, uint64_t a, uint64_t b) {
  return weights.of(a, a) / weights.of(b, b);
}

double believed(double worth) { return std::pow(worth, SampleWeights::kBelieved); }

}  // namespace

TEST_CASE("samples of equal length at equal distances count equally") {
  const SampleWeights weights = weights_of({{1, 1, 500}, {1, 2, 500}, {1, 3, 500}});
  for (uint64_t n = 1; n <= 3; n++) CHECK(weights.of(n, n) == doctest::Approx(1));
}

TEST_CASE("a sample counts for the time that it stands for, however long it was") {
  // They stand for 2 (1 before it, as much as after it), 2.5, 3 and 3.
  const SampleWeights weights =
      weights_of({{1, 10, 1000}, {1, 12, 4000}, {1, 15, 1000}, {1, 18, 2000}});
  CHECK(ratio(weights, 2, 1) == doctest::Approx(believed(2.5 / 4 / (2.0 / 1))));
  CHECK(ratio(weights, 3, 1) == doctest::Approx(believed(1.5)));
  CHECK(ratio(weights, 4, 3) == doctest::Approx(believed(0.5)));
  // What is counted in all is what was recorded.
  CHECK(1000 * weights.of(1, 1) + 4000 * weights.of(2, 2) + 1000 * weights.of(3, 3) +
            2000 * weights.of(4, 4) ==
        doctest::Approx(8000));
  CHECK(weights.of(1, 4) == doctest::Approx(1));
}

TEST_CASE("before the first sample there is no more than the program has run") {
  const SampleWeights weights = weights_of({{1, 0.5, 1000}, {1, 4.5, 1000}});
  CHECK(ratio(weights, 2, 1) == doctest::Approx(believed(4 / 2.5)));
}

TEST_CASE("each program has its own time, and an only sample the mean") {
  const SampleWeights weights = weights_of(
      {{1, 10, 100}, {2, 500, 100}, {1, 11, 100}, {2, 503, 100}, {3, 7, 100}});
  CHECK(ratio(weights, 2, 1) == doctest::Approx(believed(3)));
  CHECK(ratio(weights, 4, 3) == doctest::Approx(believed(3)));
  CHECK(ratio(weights, 5, 1) == doctest::Approx(believed(2)));
}

TEST_CASE("no sample counts for too much or for nothing") {
  const SampleWeights weights =
      weights_of({{1, 1, 1'000'000}, {1, 1, 1'000'000}, {1, 1, 10}, {1, 99, 10}});
  CHECK(ratio(weights, 3, 1) == doctest::Approx(SampleWeights::kMost * SampleWeights::kMost));
}

TEST_CASE("without times, or for samples that are not known, all count equally") {
  CHECK(weights_of({}).of(1, 1) == 1);
  CHECK(weights_of({{1, 3, 100}}).of(1, 1) == 1);
  CHECK(weights_of({{1, 0, 100}, {1, 0, 300}}).of(1, 1) == 1);
  const SampleWeights weights = weights_of({{1, 1, 100}, {1, 2, 0}, {1, 3, 300}});
  CHECK(weights.of(2, 2) == 1);
  CHECK(weights.of(9, 12) == 1);
  CHECK(weights.of(0, 0) == 1);
}
