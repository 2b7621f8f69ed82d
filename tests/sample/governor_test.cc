// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "sample/governor.h"

namespace shadowprof::sample {
namespace {

struct Simulated {
  double overhead = 0;
  double load = 0;
  uint64_t samples = 0;
};

// A program that runs for `seconds`, each of whose samples costs and lasts the same.
Simulated simulate(const GovernorOptions& options, const SampleCost& cost, double seconds) {
  Governor governor(options, {});
  double active = 0;
  for (double now = 0;;) {
    now = std::max(now, governor.next_sample());
    if (now >= seconds) break;
    now += cost.pause + cost.lifetime;
    active += cost.lifetime;
    governor.sampled(now, cost);
  }
  return {governor.estimated_share(seconds), active / seconds, governor.samples()};
}

TEST_CASE("the overhead stays within the budget, and uses it") {
  for (double budget : {0.001, 0.01, 0.1}) {
    GovernorOptions options;
    options.max_overhead = budget;
    options.load = 1;
    const Simulated result = simulate(options, {0.001, 0.01, 500, 100}, 60);
    CHECK(result.overhead <= 1.1 * budget);
    CHECK(result.overhead >= 0.7 * budget);
  }
}

TEST_CASE("cheap samples are bounded by the load") {
  for (double load : {0.05, 0.25, 1.0}) {
    GovernorOptions options;
    options.max_overhead = 1;
    options.load = load;
    const Simulated result = simulate(options, {0.0001, 0.02, 0, 0}, 60);
    CHECK(result.load <= 1.1 * load);
    CHECK(result.load >= 0.7 * load);
  }
}

TEST_CASE("a frequency is not exceeded") {
  GovernorOptions options;
  options.max_overhead = 1;
  options.load = 1;
  options.frequency = 10;
  const Simulated result = simulate(options, {0.0001, 0.001, 0, 0}, 60);
  CHECK(result.samples <= 660);
  CHECK(result.samples >= 480);
}

TEST_CASE(
    "nothing is sampled before the delay, and then the budget is not what had been saved up") {
  GovernorOptions options;
  options.delay = 5;
  Governor governor(options, {});
  CHECK(governor.next_sample() >= 5);
  governor.sampled(5.1, {0.01, 0.01, 0, 0});
  CHECK(governor.next_sample() > 5.5);
}

TEST_CASE("a sleeping program is looked at less and less often") {
  Governor governor({}, {});
  double now = governor.next_sample();
  double first_gap = 0, last_gap = 0;
  for (int i = 0; i < 20; i++) {
    governor.missed(now);
    last_gap = governor.next_sample() - now;
    if (i == 0) first_gap = last_gap;
    now = governor.next_sample();
  }
  CHECK(last_gap > 10 * first_gap);
  CHECK(last_gap <= 1);
}

// What a sample of `instructions` costs where only the pause is fixed.
SampleCost cost_of(uint64_t instructions, double pause, double per_million) {
  SampleCost cost{pause, 0.01, 0, 0};
  cost.contention = per_million * 1e-6 * static_cast<double>(instructions);
  cost.instructions = instructions;
  return cost;
}

TEST_CASE("a sample's length makes its growing cost equal to its fixed one") {
  Governor governor({}, {});
  for (int i = 0; i < 60; i++) governor.sampled(i, cost_of(governor.length(), 1e-3, 1e-4));
  CHECK(governor.length() > 9'000'000);
  CHECK(governor.length() < 11'000'000);
  SUBCASE("and follows when that changes") {
    for (int i = 60; i < 120; i++) governor.sampled(i, cost_of(governor.length(), 1e-3, 2e-5));
    CHECK(governor.length() > 45'000'000);
    CHECK(governor.length() < 55'000'000);
  }
  SUBCASE("within bounds") {
    for (int i = 60; i < 120; i++) governor.sampled(i, cost_of(governor.length(), 1e-3, 0));
    CHECK(governor.length() == 320'000'000);
    for (int i = 120; i < 200; i++) governor.sampled(i, cost_of(governor.length(), 1e-6, 1));
    CHECK(governor.length() == 1'000'000);
  }
}

TEST_CASE("where looking is cheap, a sleeping program is still looked at often") {
  Governor governor({}, {});
  double now = governor.next_sample();
  for (int i = 0; i < 20; i++) {
    governor.missed(now, 0.02);
    CHECK(governor.next_sample() - now <= 0.03);
    now = governor.next_sample();
  }
}

TEST_CASE("the same seed gives the same moments") {
  GovernorOptions options;
  options.seed = 42;
  Governor a(options, {}), b(options, {});
  for (int i = 1; i < 100; i++) {
    a.sampled(i, {0.001, 0.01, 0, 0});
    b.sampled(i, {0.001, 0.01, 0, 0});
    CHECK(a.next_sample() == b.next_sample());
  }
}

}  // namespace
}  // namespace shadowprof::sample
