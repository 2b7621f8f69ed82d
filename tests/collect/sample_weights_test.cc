// SPDX-License-Identifier: MIT
#include "collect/weights/sample_weights.h"

#include <doctest/doctest.h>

#include <random>

#include "trace/record.h"

namespace {

using shadowprof::collect::SampleWeights;
using shadowprof::trace::CodeShares;

constexpr uint64_t kLong = 1'000'000;
constexpr uint64_t kBrief = 1'000;

// A kind of samples: how many there are, and of how many cells of code each has one.
struct Kind {
  uint64_t samples;
  uint64_t instructions;
  size_t cells;
};

void take(SampleWeights& weights, const Kind& kind, bool brief, std::mt19937_64& random) {
  for (uint64_t i = 0; i < kind.samples; i++) {
    CodeShares code{};
    code[random() % kind.cells] = kind.instructions;
    const double at = static_cast<double>(i + 1) / static_cast<double>(kind.samples);
    weights.recorded(weights.taken(1, at, brief), kind.instructions, code);
  }
}

SampleWeights weights_of(const Kind& replicas, const Kind& brief) {
  std::mt19937_64 random(5);
  SampleWeights weights;
  take(weights, replicas, false, random);
  take(weights, brief, true, random);
  weights.conclude();
  return weights;
}

double counted(const SampleWeights& weights, const Kind& kind, uint64_t mark) {
  return weights.of(1 | mark, kind.samples | mark) *
         static_cast<double>(kind.samples * kind.instructions);
}

}  // namespace

TEST_CASE("each kind of samples has numbers of its own, and what is counted is what was recorded") {
  const Kind replicas{10, kLong, 8}, brief{200, kBrief, 8};
  const SampleWeights weights = weights_of(replicas, brief);
  const double long_ones = counted(weights, replicas, 0);
  const double brief_ones = counted(weights, brief, shadowprof::trace::kBriefSample);
  CHECK(long_ones + brief_ones == doctest::Approx(10 * kLong + 200 * kBrief));
  CHECK(brief_ones / (long_ones + brief_ones) == doctest::Approx(weights.share_of_brief_ones()));
}

TEST_CASE("kinds of the same variety count by the number of their samples, not by their size") {
  const SampleWeights weights = weights_of({20, kLong, 8}, {380, kBrief, 8});
  CHECK(weights.share_of_brief_ones() > 0.9);
  CHECK(weights.share_of_brief_ones() < 0.98);
}

TEST_CASE("replicas that all say the same leave nothing to brief samples that do not") {
  CHECK(weights_of({20, kLong, 1}, {380, kBrief, 8}).share_of_brief_ones() < 0.03);
}

TEST_CASE("of few samples it is not known how much they differ") {
  CHECK(weights_of({2, kLong, 1}, {18, kBrief, 8}).share_of_brief_ones() ==
        doctest::Approx(0.9).epsilon(0.05));
  CHECK(weights_of({20, kLong, 1}, {40, kBrief, 1}).share_of_brief_ones() ==
        doctest::Approx(2.0 / 3).epsilon(0.05));
}

TEST_CASE("one kind alone is the profile") {
  const SampleWeights only_long = weights_of({9, kLong, 4}, {});
  CHECK(only_long.share_of_brief_ones() == 0);
  CHECK(only_long.of(1, 9) == doctest::Approx(1));
  const SampleWeights only_brief = weights_of({}, {9, kBrief, 4});
  CHECK(only_brief.share_of_brief_ones() == 1);
  CHECK(counted(only_brief, {9, kBrief, 4}, shadowprof::trace::kBriefSample) ==
        doctest::Approx(9 * kBrief));
}

namespace {

// Replicas that see only the first half of a run, in which a program executes code of cell 0; in
// the other half it executes code of cell 1.
double share_of_second_half(uint64_t brief_ones, uint64_t replicas = 200) {
  constexpr double kSeconds = 100;
  SampleWeights weights;
  const auto take_at = [&](double at, uint64_t instructions, bool brief) {
    CodeShares code{};
    code[at < kSeconds / 2 ? 0 : 1] = instructions;
    const uint64_t number = weights.taken(1, at, brief);
    weights.recorded(number, instructions, code);
    return number;
  };
  for (uint64_t i = 0; i < replicas; i++)
    take_at(kSeconds / 2 * static_cast<double>(i) / static_cast<double>(replicas), kLong, false);
  std::vector<uint64_t> late;
  for (uint64_t i = 0; i <= brief_ones; i++) {
    const double at = kSeconds * static_cast<double>(i) / static_cast<double>(brief_ones);
    const uint64_t number = take_at(at, kBrief, true);
    if (at >= kSeconds / 2) late.push_back(number);
  }
  weights.conclude();
  double second = 0;
  for (const uint64_t number : late) second += weights.of(number, number) * kBrief;
  return second / static_cast<double>(replicas * kLong + (brief_ones + 1) * kBrief);
}

}  // namespace

TEST_CASE("what replicas have not seen at all is known from brief samples") {
  CHECK(share_of_second_half(400) == doctest::Approx(0.5).epsilon(0.1));
  CHECK(share_of_second_half(60) == doctest::Approx(0.5).epsilon(0.1));
  CHECK(share_of_second_half(60, 12) == doctest::Approx(0.5).epsilon(0.1));
}

TEST_CASE("by the time alone what is seldom sampled counts as much as it takes") {
  SampleWeights weights;
  const auto take_at = [&](double at, size_t cell, uint64_t instructions, bool brief) {
    CodeShares code{};
    code[cell] = instructions;
    weights.recorded(weights.taken(1, at, brief), instructions, code);
  };
  // Half of the run has one sample, and that is by chance as those of the other half.
  take_at(0, 0, kLong, false);
  for (int i = 0; i <= 20; i++) take_at(10 + 0.5 * i, 0, kLong, false);
  take_at(5, 1, kBrief, true);
  weights.conclude();
  const uint64_t mark = shadowprof::trace::kBriefSample;
  const double brief = weights.of(1 | mark, 1 | mark) * kBrief / (22 * kLong + kBrief);
  CHECK(brief < 0.1);
  CHECK(brief * weights.by_time(1 | mark, 1 | mark) == doctest::Approx(0.25).epsilon(0.1));
  CHECK(weights.by_time(12, 15) == doctest::Approx(weights.by_time(4, 4)).epsilon(0.01));
}
