// SPDX-License-Identifier: MIT
#include "probe/cache_neighbour.h"

#include <doctest/doctest.h>

#include "../temporary_folder.h"

namespace shadowprof::probe {
namespace {

TEST_CASE("what a loop loses is known, or it is said that it is not") {
  const auto loss = measure_cache_neighbour();
  if (!loss) {
    MESSAGE("skip  there is one core, or others use the second one");
    return;
  }
  CHECK(*loss >= 0);
  CHECK(*loss < 3);
}

TEST_CASE("the least of three losses counts, and no fourth is measured") {
  const test::TemporaryFolder folder;
  const HostNotes notes(folder.path(), "boot 1\n");
  CHECK_FALSE(CacheNeighbourNotes(notes).loss());
  int measured = 0;
  const auto add = [&](std::optional<double> loss) {
    CacheNeighbourNotes(notes).add([&] {
      measured++;
      return loss;
    });
    return CacheNeighbourNotes(notes).loss();
  };
  CHECK(add(0.4) == 0.4);
  CHECK(add(0.02) == 0.02);
  CHECK(add(0.1) == 0.02);
  CHECK(add(0.01) == 0.02);
  CHECK(measured == 3);
}

TEST_CASE("a round that gives nothing is a round") {
  const test::TemporaryFolder folder;
  const HostNotes notes(folder.path(), "boot 1\n");
  for (int i = 0; i < 3; i++) CacheNeighbourNotes(notes).add([] { return std::nullopt; });
  CHECK_FALSE(CacheNeighbourNotes(notes).loss());
  CacheNeighbourNotes(notes).add([]() -> std::optional<double> {
    FAIL_CHECK("it is measured again");
    return std::nullopt;
  });
}

TEST_CASE("nothing is measured that cannot be kept") {
  const HostNotes notes("/proc/nowhere/at/all", "boot 1\n");
  CacheNeighbourNotes(notes).add([]() -> std::optional<double> {
    FAIL_CHECK("it is measured");
    return std::nullopt;
  });
}

}  // namespace
}  // namespace shadowprof::probe
