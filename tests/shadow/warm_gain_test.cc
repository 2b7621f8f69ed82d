// SPDX-License-Identifier: MIT
#include "shadow/warm_gain.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

TEST_CASE("a program that is faster in all long stretches is that much faster") {
  WarmGain gain;
  for (int i = 0; i < 5; i++) gain.add(1e9 * (1 + i), 2e9 * (1 + i) * (i % 2 == 0 ? 1.05 : 0.95));
  CHECK(gain.ratio() == doctest::Approx(2).epsilon(0.03));
  CHECK(gain.stretches() == 5);
}

TEST_CASE("nothing is said by two stretches, or by those that differ by chance") {
  WarmGain few;
  few.add(1e9, 2e9);
  few.add(1e9, 2e9);
  CHECK(few.ratio() == 1);
  WarmGain scattered;
  for (int i = 0; i < 20; i++) scattered.add(1e9, i % 2 == 0 ? 2e9 : 0.55e9);
  CHECK(scattered.ratio() == 1);
}

TEST_CASE("no replica is faster than its program") {
  WarmGain gain;
  for (int i = 0; i < 5; i++) gain.add(2e9, 1e9);
  CHECK(gain.ratio() == 1);
}

TEST_CASE("stretches of several replicas are taken together, unknown speeds are none") {
  WarmGain one, other;
  one.add(1e9, 3e9);
  one.add(0, 3e9);
  other.add(1e9, 3e9);
  other.add(1e9, 3.1e9);
  one += other;
  CHECK(one.stretches() == 3);
  CHECK(one.ratio() == doctest::Approx(3).epsilon(0.02));
}

}  // namespace
}  // namespace shadowprof::shadow
