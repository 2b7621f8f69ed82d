// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <random>

#include "collect/probes/probe_counts.h"

namespace {

using namespace shadowprof;
using collect::ProbeCounts;

uint64_t sum_of(const ProbeCounts& counts) {
  uint64_t sum = 0;
  for (const ProbeCounts::Entry& entry : counts.entries()) sum += entry.count;
  return sum;
}

}  // namespace

TEST_CASE("each tuple has its count, however many there are") {
  ProbeCounts counts;
  for (uint64_t round = 0; round < 3; round++)
    for (uint64_t i = 0; i < 20'000; i++) counts.add({i % 5'000, i % 3, ~i % 5'000, 0});
  CHECK(counts.entries().size() == 15'000);
  CHECK(counts.counted() == 60'000);
  CHECK(sum_of(counts) == 60'000);
  CHECK(counts.others() == 0);
}

TEST_CASE("what there is no room for is counted as others") {
  ProbeCounts counts(10);
  for (uint64_t i = 0; i < 100; i++) counts.add({i % 20, 0, 0, 0});
  CHECK(counts.entries().size() == 10);
  CHECK(sum_of(counts) == 50);
  CHECK(counts.others() == 50);
  CHECK(counts.counted() == 100);
}

TEST_CASE("what has no tuple to be counted by is one of the others") {
  ProbeCounts counts;
  counts.add({1, 0, 0, 0});
  counts.add_other();
  CHECK(sum_of(counts) == 1);
  CHECK(counts.others() == 1);
  CHECK(counts.counted() == 2);
}

TEST_CASE("the error of a count is that of a ratio over observations") {
  ProbeCounts alike, different, one;
  std::mt19937 random(7);
  for (uint64_t observation = 0; observation < 50; observation++) {
    const bool first = random() % 2 != 0;
    for (uint64_t i = 0; i < 100; i++) {
      alike.add({i % 2, 0, 0, 0});
      different.add({first ? 1u : 0u, 0, 0, 0});
      if (observation == 0) one.add({i % 2, 0, 0, 0});
    }
    alike.end_observation();
    different.end_observation();
    one.end_observation();
  }
  CHECK(alike.error_of(alike.entries()[0]) == 0);
  // A coin that is tossed 50 times: half the square root of that, in hundreds.
  CHECK(different.error_of(different.entries()[0]) > 300);
  CHECK(different.error_of(different.entries()[0]) < 400);
  CHECK(one.error_of(one.entries()[0]) == one.counted());
}
