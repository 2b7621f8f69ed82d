// SPDX-License-Identifier: MIT
#include "profile/hotlists/call_circle.h"

#include <doctest/doctest.h>

#include <random>

using namespace shadowprof::profile;

namespace {

// The sum of P^k, applied to `values`: what all calls below cost, one level after the other.
std::vector<double> level_by_level(const std::vector<CircleCall>& calls,
                                   std::vector<double> values) {
  std::vector<double> sum = values;
  for (int level = 0; level < 400; level++) {
    std::vector<double> next(values.size());
    for (const CircleCall& c : calls) next[c.caller] += c.for_each * values[c.callee];
    values = next;
    for (size_t i = 0; i < sum.size(); i++) sum[i] += values[i];
  }
  return sum;
}

void check_against_levels(const std::vector<CircleCall>& calls, const std::vector<double>& own) {
  const auto costs = solve_call_circle(calls, own);
  REQUIRE(costs);
  const std::vector<double> cost = level_by_level(calls, own);
  for (size_t f = 0; f < own.size(); f++) {
    CAPTURE(f);
    CHECK(costs->of_call[f] == doctest::Approx(cost[f]).epsilon(1e-6));
    std::vector<double> one(own.size());
    one[f] = 1;
    CHECK(costs->calls_within[f] == doctest::Approx(level_by_level(calls, one)[f]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("two that call each other are solved as by hand") {
  const auto costs = solve_call_circle({{0, 1, 1.0}, {1, 0, 0.8}}, {2, 3});
  REQUIRE(costs);
  CHECK(costs->of_call[0] == doctest::Approx(25));
  CHECK(costs->of_call[1] == doctest::Approx(23));
  CHECK(costs->calls_within[0] == doctest::Approx(5));
  CHECK(costs->calls_within[1] == doctest::Approx(5));
}

TEST_CASE("a circle of few and of many neighbours is what its levels add up to") {
  constexpr size_t kAll = 90, kHubs = 30;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<CircleCall> calls;
  std::vector<double> own;
  for (size_t f = 0; f < kAll; f++) {
    own.push_back(part(random));
    calls.push_back({f, (f + 1) % kAll, 0.3});
    if (f >= kHubs) calls.push_back({f, random() % kHubs, 0.3 * part(random)});
  }
  for (size_t f = 0; f < kHubs; f++)
    for (size_t g = 0; g < kHubs; g++)
      if (f != g && g != f + 1) calls.push_back({f, g, 0.4 / kHubs});
  check_against_levels(calls, own);
}

TEST_CASE("calls that never end, and too many neighbours, have no answer") {
  CHECK(!solve_call_circle({{0, 1, 1.0}, {1, 0, 1.0}}, {2, 3}));
  std::vector<CircleCall> calls;
  for (size_t f = 0; f < 900; f++)
    for (size_t step = 1; step < 30; step++) calls.push_back({f, (f * step + step) % 900, 0.01});
  CHECK(!solve_call_circle(calls, std::vector<double>(900, 1)));
}
