// SPDX-License-Identifier: MIT
#include "collect/line_counts.h"

#include <doctest/doctest.h>

#include <map>

#include "profile/random.h"

namespace {

using shadowprof::collect::LineCounts;

}  // namespace

TEST_CASE("lines are counted exactly while there is room") {
  LineCounts counts;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> truth;
  shadowprof::profile::Random random(3);
  for (int i = 0; i < 100'000; i++) {
    const uint64_t line = random.next() % 5000 * (random.next() % 3 == 0 ? 1 : 4096);
    const bool load = random.next() % 2 == 0;
    counts.add(line, load ? 1 : 0, load ? 0 : 2);
    truth[line].first += load ? 1 : 0;
    truth[line].second += load ? 0 : 2;
  }
  CHECK(counts.size() == truth.size());
  CHECK(counts.pruned() == 0);
  size_t right = 0;
  counts.for_each([&](uint64_t line, uint64_t loads, uint64_t stores) {
    right += truth.at(line) == std::pair(loads, stores) ? 1 : 0;
  });
  CHECK(right == truth.size());
}

TEST_CASE("of more lines than there is room for, none above the bound is lost") {
  LineCounts counts(512);
  uint64_t all = 0;
  // Every hundredth access goes to one line, the others to one that never comes back.
  for (uint64_t i = 0; i < 100'000; i++) {
    counts.add(i % 100 == 0 ? 7 : 1000 + i, 1, 0);
    all++;
  }
  uint64_t hot = 0, kept = 0;
  counts.for_each([&](uint64_t line, uint64_t loads, uint64_t) {
    kept += loads;
    if (line == 7) hot = loads;
  });
  CHECK(counts.size() <= 512);
  CHECK(counts.accesses() == all);
  CHECK(kept + counts.pruned() == all);
  CHECK(hot <= 1000);
  CHECK(hot + counts.error_bound() >= 1000);
  CHECK(counts.error_bound() < 300);
}
