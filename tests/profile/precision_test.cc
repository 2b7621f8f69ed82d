// SPDX-License-Identifier: MIT
#include "profile/precision.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

using profile::Function;
using profile::precision_of;
using profile::Profile;

// A function of so many instructions, known to so many, that took so many nanoseconds.
struct Given {
  uint64_t self;
  uint64_t error;
  uint64_t ns = 0;
};

// 31 groups: an interval is 2.04 standard errors to either side.
Profile sampled(const std::vector<Given>& functions) {
  Profile p;
  p.run.mode = "shadow";
  p.coverage.samples = 40;
  p.coverage.estimated = true;
  p.confidence = {false, 31};
  for (const Given& given : functions) {
    Function f;
    f.at.offset = 16 * p.functions.size();
    f.self = given.self;
    f.self_error = given.error;
    f.user_ns = given.ns;
    p.functions.push_back(f);
    p.coverage.attributed += given.self;
  }
  return p;
}

TEST_CASE("the widest interval of the functions with the first 80 % decides") {
  // 50 + 30 %: the third has the widest interval and does not matter.
  const auto precision = precision_of(sampled({{200, 60}, {500, 10}, {300, 20}}));
  REQUIRE(precision);
  CHECK(precision->functions == 2);
  CHECK_FALSE(precision->by_time);
  CHECK(precision->widest == doctest::Approx(0.0408).epsilon(0.01));
  // 50 + 29 %: it does.
  const auto more = precision_of(sampled({{210, 60}, {500, 10}, {290, 20}}));
  REQUIRE(more);
  CHECK(more->functions == 3);
  CHECK(more->widest == doctest::Approx(0.1225).epsilon(0.01));
}

TEST_CASE("where time is known it says which functions these are") {
  Profile p = sampled({{100, 20, 900'000'000}, {900, 20, 100'000'000}});
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 100;
  const auto precision = precision_of(p);
  REQUIRE(precision);
  CHECK(precision->by_time);
  CHECK(precision->functions == 1);
  // 90 % of 100 ticks.
  CHECK(precision->widest == doctest::Approx(0.0588).epsilon(0.01));
  // With many ticks the samples decide.
  p.time.ticks = 1'000'000;
  CHECK(precision_of(p)->widest == doctest::Approx(0.0408).epsilon(0.01));
}

TEST_CASE("what is too little for conclusions is not exact") {
  CHECK_FALSE(precision_of(sampled({})));
  Profile p = sampled({{1000, 10}});
  CHECK(precision_of(p));
  p.confidence.groups = 0;
  CHECK_FALSE(precision_of(p));
  p.confidence.groups = 1;
  CHECK_FALSE(precision_of(p));
  p = sampled({{1000, 600}});
  CHECK_FALSE(precision_of(p));
}

}  // namespace
}  // namespace shadowprof
