// SPDX-License-Identifier: MIT
//
// Profiles made small.
#include "profile/file/baseline.h"

#include <doctest/doctest.h>

#include "profile/compare/diff.h"
#include "profile/file/json_file.h"
#include "sample_profile.h"

using namespace shadowprof;
using namespace shadowprof::profile;

namespace {

// Paths of one block each through one function; path i was executed 1000 - i times.
Profile with_paths(size_t count) {
  Profile p;
  p.modules = {{"/bin/app", "00ff", 0x400000, 0, 0}};
  p.functions.resize(1);
  p.functions[0].at = {0, 0};
  p.functions[0].size = 0x10000;
  p.functions[0].name = "f";
  p.coverage.paths.collected = true;
  for (size_t i = 0; i < count; i++) {
    PathRow row;
    row.blocks = {CodeRef{0, i * 16}};
    row.insns = 4;
    row.count = 1000 - i;
    p.tables.paths.push_back(row);
  }
  p.confidence.exact = true;
  return p;
}

}  // namespace

TEST_CASE("a baseline says what it left out, and is read back") {
  Profile p = test::sample_profile();
  const size_t blocks = p.tables.blocks.size();
  const size_t edges = p.tables.edges.size();
  const size_t calls = p.tables.calls.size();
  reduce_to_baseline(p);
  CHECK(p.left_out.at("blocks") == blocks);
  CHECK(p.left_out.at("edges") == edges);
  CHECK(p.tables.blocks.empty());
  CHECK(p.tables.calls.size() == calls);
  const auto again = parse_profile(profile_json(p));
  REQUIRE(again);
  CHECK(again->left_out == p.left_out);
  CHECK(again->functions.size() == p.functions.size());
}

TEST_CASE("a baseline keeps the most executed paths, as many as there is room for") {
  Profile whole = with_paths(900);
  Profile baseline = whole;
  reduce_to_baseline(baseline, 3000);
  const size_t kept = baseline.tables.paths.size();
  CHECK(kept > 10);
  CHECK(kept < 900);
  CHECK(baseline.left_out.at("paths") == 900 - kept);
  CHECK(baseline.tables.paths.back().count == 1001 - kept);

  // What may only be missing has not changed; what grew by more than that has.
  const auto grown = [&](const Profile& now) {
    size_t rows = 0;
    for (const PathChange& c : compare_profiles(baseline, {}, now, {}).paths)
      rows += c.count.delta() > 0 ? 1 : 0;
    return rows;
  };
  CHECK(grown(whole) == 0);
  whole.tables.paths[899].count = 5000;
  CHECK(grown(whole) == 1);
}
