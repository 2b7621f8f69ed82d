// SPDX-License-Identifier: MIT
#include "symbols/range_index.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

using shadowprof::symbols::IndexedRange;
using shadowprof::symbols::RangeIndex;

namespace {

constexpr uint32_t kNone = 999;

uint32_t index_at(const RangeIndex& index, uint64_t address) {
  const IndexedRange* range = index.find(address);
  return range != nullptr ? range->index : kNone;
}

}  // namespace

TEST_CASE("the innermost of nested ranges wins, and the outer one resumes behind it") {
  RangeIndex index = RangeIndex::innermost_wins({{10, 100, 0}, {20, 50, 1}, {30, 40, 2}});
  CHECK(index_at(index, 9) == kNone);
  CHECK(index_at(index, 10) == 0);
  CHECK(index_at(index, 29) == 1);
  CHECK(index_at(index, 30) == 2);
  CHECK(index_at(index, 40) == 1);
  CHECK(index_at(index, 50) == 0);
  CHECK(index_at(index, 99) == 0);
  CHECK(index_at(index, 100) == kNone);
}

TEST_CASE("the next piece is the first that begins behind an address") {
  RangeIndex index = RangeIndex::innermost_wins({{10, 20, 0}, {30, 40, 1}});
  CHECK(index.next_start(0) == 10);
  CHECK(index.next_start(9) == 10);
  CHECK(index.next_start(10) == 30);
  CHECK(index.next_start(30) == ~uint64_t{0});
}

TEST_CASE("a range that fills its parent hides it") {
  RangeIndex index = RangeIndex::innermost_wins({{10, 20, 0}, {10, 20, 1}, {10, 15, 2}});
  CHECK(index_at(index, 14) == 2);
  CHECK(index_at(index, 15) == 1);
}

TEST_CASE("the newest occupant of recycled addresses wins, and cuts the older ones") {
  RangeIndex index = RangeIndex::last_wins({{10, 40, 0}, {20, 30, 1}, {5, 12, 2}, {28, 50, 3}});
  CHECK(index_at(index, 5) == 2);
  CHECK(index_at(index, 12) == 0);
  CHECK(index_at(index, 20) == 1);
  CHECK(index_at(index, 28) == 3);
  CHECK(index_at(index, 49) == 3);
  CHECK(index_at(index, 50) == kNone);
}

TEST_CASE("both ways of overlapping agree with a search through the list") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<IndexedRange> ranges;
    for (uint32_t i = 0; i < 20; ++i) {
      uint64_t start = random() % 100;
      ranges.push_back({start, start + random() % 30, i});
    }
    RangeIndex inner = RangeIndex::innermost_wins(ranges);
    RangeIndex last = RangeIndex::last_wins(ranges);
    for (uint64_t address = 0; address < 140; ++address) {
      uint32_t wanted_inner = kNone;
      uint32_t wanted_last = kNone;
      uint64_t best_start = 0;
      for (const IndexedRange& range : ranges) {
        if (address < range.start || address >= range.end) continue;
        if (wanted_inner == kNone || range.start >= best_start) {
          wanted_inner = range.index;
          best_start = range.start;
        }
        wanted_last = range.index;
      }
      REQUIRE(index_at(inner, address) == wanted_inner);
      REQUIRE(index_at(last, address) == wanted_last);
    }
  }
}
