// SPDX-License-Identifier: MIT
#include "probe/contention.h"

#include <doctest/doctest.h>

namespace shadowprof::probe {
namespace {

constexpr double kFast = 20e-6;
constexpr double kSlow = 32e-6;

// It is known at 1 s that the program is elsewhere.
SharedCore apart() {
  SharedCore core;
  CHECK_FALSE(core.ran(kFast, 1));
  core.stood_still(kFast, kFast, 1);
  CHECK(core.slow_down_share() == 0);
  return core;
}

TEST_CASE("of a core that is as fast as ever the program need not be asked again") {
  SharedCore core = apart();
  for (double now = 1; now < 10; now += 0.1) CHECK(core.ran(1.1 * kFast, now));
  CHECK(core.slow_down_share() == 0);
}

TEST_CASE("a core that is fast only while the program stands still is the program's") {
  SharedCore core = apart();
  CHECK_FALSE(core.ran(kSlow, 5));
  core.stood_still(kFast, kSlow, 5);
  CHECK(core.slow_down_share() > 0.2);
  CHECK(core.slow_down_share() <= SharedCore::kMostShare);
  SUBCASE("until it is fast again") {
    CHECK(core.ran(kFast, 5.05));
    CHECK(core.slow_down_share() == 0);
  }
  SUBCASE("or found to be another's") {
    CHECK_FALSE(core.ran(kSlow, 5.001));
    CHECK(core.slow_down_share() > 0);
    CHECK_FALSE(core.ran(kSlow, 6));
    core.stood_still(kSlow, kSlow, 6);
    CHECK(core.slow_down_share() == 0);
  }
}

TEST_CASE("one that is as slow when the program stands still is shared with a stranger") {
  SharedCore core = apart();
  CHECK_FALSE(core.ran(kSlow, 5));
  core.stood_still(kSlow, kSlow, 5);
  CHECK(core.slow_down_share() == 0);
  CHECK(core.ran(kSlow, 5.05));
  CHECK(core.slow_down_share() == 0);
  SUBCASE("who leaves, and then it might be the program") {
    CHECK(core.ran(kFast, 6));
    CHECK_FALSE(core.ran(kSlow, 7));
  }
}

TEST_CASE("a program that sleeps shares nothing") {
  SharedCore core = apart();
  CHECK_FALSE(core.ran(kSlow, 5));
  core.is_apart(5);
  CHECK(core.slow_down_share() == 0);
}

}  // namespace
}  // namespace shadowprof::probe
