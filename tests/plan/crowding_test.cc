// SPDX-License-Identifier: MIT
#include "plan/crowding.h"

#include <doctest/doctest.h>

namespace shadowprof::plan {
namespace {

constexpr double kNeighbour = 0.1;

TEST_CASE("a replica that waits most of its life has no idle core") {
  Crowding crowding(1, kNeighbour);
  CHECK(crowding.at_idle_priority());
  CHECK(crowding.ended({.used_s = 1, .waited_s = 1}, 0.5, 1) == doctest::Approx(0.15));
  CHECK(crowding.at_idle_priority());
  (void)crowding.ended({.used_s = 1, .waited_s = 9}, 0.5, 1);
  CHECK_FALSE(crowding.at_idle_priority());
  CHECK(crowding.cost_of(1) == doctest::Approx(1));
  CHECK(crowding.ended({.used_s = 1, .waited_s = 0.5}, 0.5, 1) == doctest::Approx(1.5));
  CHECK_FALSE(crowding.at_idle_priority());
  (void)crowding.ended({.used_s = 1, .waited_s = 0.1}, 0.5, 1);
  CHECK(crowding.at_idle_priority());
}

TEST_CASE("what was charged in full stays so when a busy core turns out to cost less") {
  Crowding crowding(1, kNeighbour);
  CHECK(crowding.charge(2) == doctest::Approx(0.2));
  (void)crowding.ended({.used_s = 1, .waited_s = 9}, 0, 1);
  CHECK(crowding.charge(5) == doctest::Approx(5));
  CHECK(crowding.measured_again(0.01) == doctest::Approx((kNeighbour - 0.01) * 3));
  CHECK(crowding.measured_again(0.05) == doctest::Approx(0));
}

TEST_CASE("being woken after each stop is no waiting") {
  CHECK_FALSE(Crowding::is_crowded_out({.used_s = 0.01, .waited_s = 0.05, .stops = 1000}));
  CHECK(Crowding::is_crowded_out({.used_s = 0.01, .waited_s = 0.05}));
  CHECK(Crowding::is_crowded_out({.used_s = 0.01, .waited_s = 0.5, .stops = 1000}));
}

TEST_CASE("replicas that wait for one another become fewer, and not less than one") {
  Crowding crowding(3, kNeighbour);
  CHECK(crowding.shadows() == 3);
  for (size_t left : {2u, 1u, 1u}) {
    (void)crowding.ended({.used_s = 1, .waited_s = 9}, 0.5, 3);
    CHECK(crowding.shadows() == left);
  }
  CHECK(crowding.at_idle_priority());
  (void)crowding.ended({.used_s = 1, .waited_s = 0}, 0.5, 1);
  CHECK(crowding.shadows() == 2);
}

}  // namespace
}  // namespace shadowprof::plan
