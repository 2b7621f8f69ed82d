// SPDX-License-Identifier: MIT
#include "profile/hotlists/unnamed_code.h"

#include <doctest/doctest.h>

#include "profile/hotlists/hotlists.h"

namespace shadowprof {
namespace {

using profile::Profile;

// 100 instructions of a function, 300 of generated code in two places, 50 of a stripped library.
Profile with_unnamed_code() {
  Profile p;
  p.modules.resize(4);
  p.modules[0].path = "/bin/app";
  p.modules[3].path = "/lib/libstripped.so";
  p.coverage.instructions_profiled = p.coverage.instructions_total = p.coverage.attributed = 450;
  p.confidence.exact = true;
  p.tables.blocks = {{{0, 0x100}, 8, 4, 25}, {{1, 0x10}, 8, 4, 50}, {{2, 0x20}, 8, 4, 25},
                     {{3, 0x30}, 8, 6, 10}};
  p.tables.interruptions = {{3, 4, 10}};
  profile::Function app;
  app.at = {0, 0x100};
  app.size = 0x40;
  app.name = "work";
  profile::attribute_functions(p, {app});
  return p;
}

TEST_CASE("what belongs to no function has a row for each file") {
  Profile p = with_unnamed_code();
  const profile::FunctionTable rows = unnamed_code(p);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "[unknown code of [anonymous]]");
  CHECK(rows[0].self == 300);
  CHECK(rows[1].name == "[unknown code of libstripped.so]");
  CHECK(rows[1].self == 60 - 10 * 2);
  CHECK(profile::generated_share(p) == doctest::Approx(300.0 / 450));
}

TEST_CASE("it stands among the hottest functions, by time where that is known") {
  Profile p = with_unnamed_code();
  profile::Hotlists lists = compute_hotlists(p, 8, {});
  REQUIRE(lists.methods.size() == 3);
  CHECK(lists.methods[0].at.function == "[unknown code of [anonymous]]");
  CHECK(lists.methods[0].at.module.empty());
  CHECK(lists.methods[0].self == 300);
  CHECK(lists.methods[1].at.function == "work");
  p.time.source = "cpu-clock";
  p.time.user_s = 1e-6;
  p.time.ticks = 100;
  p.tables.time = {{{0, 0x104}, 0, 700, 0}, {{1, 0x12}, 0, 300, 0}};
  profile::attribute_functions(p, p.functions);
  lists = compute_hotlists(p, 8, {});
  REQUIRE(lists.methods.size() == 3);
  CHECK(lists.methods[0].at.function == "work");
  CHECK(lists.methods[1].time.share == doctest::Approx(0.3));
  CHECK(profile::generated_share(p) == doctest::Approx(0.3));
}

}  // namespace
}  // namespace shadowprof
