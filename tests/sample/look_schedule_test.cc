// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "sample/look_schedule.h"

namespace shadowprof::sample {
namespace {

// Looks in ten seconds, each of which takes `pause`.
int looks(double share, double pause, bool finds) {
  LookSchedule schedule(share, 0, 1);
  int count = 0;
  for (double now = 0; now < 10; now = schedule.next()) {
    count++;
    schedule.looked(now, pause, false);
    if (finds) schedule.found_new();
  }
  return count;
}

TEST_CASE("looks come often as long as they find something, and seldom when they do not") {
  CHECK(looks(1, 1e-6, true) > 1000);
  CHECK(looks(1, 1e-6, false) < 40);
  CHECK(looks(1, 1e-6, false) > 10);
}

TEST_CASE("looks keep to their share of the time") {
  CHECK(looks(0.001, 1e-4, true) <= 101);
}

}  // namespace
}  // namespace shadowprof::sample
