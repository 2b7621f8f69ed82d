// SPDX-License-Identifier: MIT
#include "sample/later_samples.h"

#include <doctest/doctest.h>

namespace shadowprof::sample {
namespace {

struct Life {
  unsigned samples = 1;
  double age = 0;
};

// Of a replica each of whose samples takes `recording` seconds, and costs `rate` of its life.
Life live(LaterSamples& later, double pause, double recording, double rate) {
  Life life{1, recording};
  later.begin(pause);
  while (const auto next = later.next(life.age, rate * life.age)) {
    CHECK(next->seconds > 0);
    CHECK(next->native_s > 0);
    life.age += next->native_s + recording;
    life.samples++;
  }
  return life;
}

GovernorOptions budget_of(double share, double load) {
  GovernorOptions options;
  options.max_overhead = share;
  options.load = load;
  return options;
}

TEST_CASE("a replica lives as long as the load allows until the budget pays for the next one") {
  LaterSamples later(budget_of(0.01, 0.5));
  const Life life = live(later, 0.004, 0.003, 0);
  CHECK(life.age > 0.15);
  CHECK(life.age < 0.25);
  CHECK(life.samples > 20);
}

TEST_CASE("no replica lives for ever, or costs more than its fork and a second's budget") {
  LaterSamples later(budget_of(0.01, 1));
  CHECK(live(later, 1, 0.003, 0).age < 2.1);
  CHECK(live(later, 0.001, 0.003, 0.5).age < 0.05);
  CHECK(live(later, 0.04, 0.003, 0.5).age < 0.1);
}

TEST_CASE("a budget that pays for many forks needs no later samples") {
  LaterSamples later(budget_of(1, 1));
  CHECK(live(later, 0.001, 0.003, 0).samples == 1);
}

TEST_CASE("where recording takes long, samples are shorter and further apart") {
  LaterSamples quick(budget_of(0.01, 1)), slow(budget_of(0.01, 1));
  quick.begin(0.01);
  slow.begin(0.01);
  const auto short_gap = quick.next(0.003, 0);
  const auto long_gap = slow.next(0.1, 0);
  REQUIRE(short_gap);
  REQUIRE(long_gap);
  CHECK(long_gap->native_s > 2 * short_gap->native_s);
  CHECK(long_gap->seconds < short_gap->seconds);
}

}  // namespace
}  // namespace shadowprof::sample
