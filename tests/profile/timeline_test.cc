// SPDX-License-Identifier: MIT
#include "profile/tables/timeline.h"

#include <doctest/doctest.h>

namespace shadowprof::profile {
namespace {

TEST_CASE("a short timeline is only put in order") {
  const TimelineRow first{5, 1, 10, 2, 3}, second{9, 1, 20, 4, 5};
  CHECK(shortened({second, first}, 2) == Timeline{first, second});
  CHECK(shortened({}, 2).empty());
}

TEST_CASE("a long one keeps its sums, in so many rows") {
  Timeline all;
  for (uint64_t i = 0; i < 1000; i++) all.push_back({i * i, 1, i, 2 * i, 3 * i});
  const Timeline few = shortened(all, 10);
  CHECK(few.size() <= 10);
  TimelineRow sum;
  uint64_t before = 0;
  for (const TimelineRow& row : few) {
    CHECK(row.at_us >= before);
    before = row.at_us;
    sum.samples += row.samples;
    sum.instructions += row.instructions;
    sum.paused_us += row.paused_us;
    sum.lived_us += row.lived_us;
  }
  CHECK(sum == TimelineRow{0, 1000, 499500, 999000, 1498500});
}

}  // namespace
}  // namespace shadowprof::profile
