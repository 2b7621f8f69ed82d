// SPDX-License-Identifier: MIT
#include "collect/loads/line_counts.h"

#include <doctest/doctest.h>

#include <map>

#include "base/limits.h"
#include "profile/random.h"

namespace {

using shadowprof::collect::kOneLoad;
using shadowprof::collect::kOneStore;
using shadowprof::collect::LineCounts;
constexpr uint64_t kLine = shadowprof::profile::kCacheLineBytes;
constexpr uint64_t kPage = shadowprof::limits::kPageBytes;

std::map<uint64_t, std::pair<uint64_t, uint64_t>> all_counts_of(LineCounts& counts) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> result;
  for (const LineCounts::Line& l : counts.hottest(1'000'000)) result[l.line] = {l.loads, l.stores};
  return result;
}

}  // namespace

TEST_CASE("lines are counted exactly while there is room") {
  LineCounts counts;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> truth;
  shadowprof::profile::Random random(3);
  uint64_t all = 0;
  for (int i = 0; i < 100'000; i++) {
    const uint64_t address = random.next() % 50'000 * (random.next() % 3 == 0 ? 8 : 4096);
    const bool load = random.next() % 2 == 0;
    counts.add(address, load ? kOneLoad : kOneLoad + kOneStore);
    auto& [loads, stores] = truth[address / kLine];
    loads++;
    stores += load ? 0 : 1;
    all += load ? 1 : 2;
  }
  CHECK(counts.size() == truth.size());
  CHECK(counts.accesses() == all);
  CHECK(all_counts_of(counts) == truth);
  CHECK(counts.pruned() == 0);
  CHECK(counts.error_bound() == 0);
}

TEST_CASE("a line may be accessed more often than a counter can say") {
  LineCounts counts;
  constexpr uint64_t kMany = uint64_t{1} << 30;
  for (int i = 0; i < 20; i++) {
    counts.add(kPage, kMany * kOneLoad);
    counts.add(kPage + kLine, kMany * kOneStore + 1);
    counts.settle();
  }
  counts.add({kPage / kLine, 5, 7});
  counts.add({3, 1, 0});
  CHECK(counts.size() == 3);
  CHECK(counts.accesses() == 40 * kMany + 20 + 13);
  const std::map<uint64_t, std::pair<uint64_t, uint64_t>> truth = {
      {3, {1, 0}},
      {kPage / kLine, {20 * kMany + 5, 7}},
      {kPage / kLine + 1, {20, 20 * kMany}}};
  CHECK(all_counts_of(counts) == truth);
}

TEST_CASE("of more pages than there is room for, no line above the bound is lost") {
  LineCounts counts(512);
  uint64_t all = 0;
  // Every hundredth access goes to one line, the others to pages that never come back.
  for (uint64_t i = 0; i < 100'000; i++) {
    counts.add(i % 100 == 0 ? 7 * kLine : (1000 + i) * kPage, kOneLoad);
    all++;
  }
  CHECK(counts.size() <= 512);
  CHECK(counts.accesses() == all);
  uint64_t kept = 0;
  const auto lines = all_counts_of(counts);
  for (const auto& [line, count] : lines) kept += count.first;
  CHECK(kept + counts.pruned() == all);
  REQUIRE(lines.contains(7));
  CHECK(lines.at(7).first <= 1000);
  CHECK(lines.at(7).first + counts.error_bound() >= 1000);
  CHECK(counts.error_bound() < 300);
}

TEST_CASE("the hottest lines are kept, and what the others had is told") {
  LineCounts counts;
  for (uint64_t line = 1; line <= 1000; line++) counts.add({line * 100, line, 0});
  const auto lines = counts.hottest(10);
  CHECK(lines.size() == 10);
  for (const LineCounts::Line& l : lines) CHECK(l.loads > 990);
  CHECK(counts.pruned() == 990 * 991 / 2);
  CHECK(counts.error_bound() == 990);
}
