// SPDX-License-Identifier: MIT
#include "sample/written_pages.h"

#include <doctest/doctest.h>

#include <vector>

namespace shadowprof::sample {
namespace {

WrittenPages after_bursts(int bursts, uint64_t other_pages) {
  WrittenPages written;
  for (uint64_t i = 0; i < static_cast<uint64_t>(bursts); i++) {
    std::vector<uint64_t> pages = {7};
    for (uint64_t k = 0; k < other_pages; k++) pages.push_back(1000 + i * other_pages + k);
    written.burst(pages);
  }
  return written;
}

}  // namespace

TEST_CASE("what only goes back to the same pages writes to these") {
  CHECK(!after_bursts(5, 0).are_the_same());  // the first one was new
  CHECK(after_bursts(6, 0).are_the_same());
}

TEST_CASE("what goes through memory writes to others each time") {
  CHECK(!after_bursts(100, 1).are_the_same());
  CHECK(!after_bursts(100, 1000).are_the_same());
}

TEST_CASE("one other page begins it all again") {
  WrittenPages written = after_bursts(10, 0);
  const std::vector<uint64_t> other = {8}, both = {7, 8};
  written.burst(other);
  CHECK(!written.are_the_same());
  for (int i = 0; i < 5; i++) written.burst(both);
  CHECK(written.are_the_same());
}

}  // namespace shadowprof::sample
