// SPDX-License-Identifier: MIT
#include "profile/tables/inlined_table.h"

#include <doctest/doctest.h>

#include "profile/compare/diff.h"
#include "profile/compare/limit_rule.h"
#include "profile/compare/merge.h"
#include "profile/file/json_file.h"
#include "sample_profile.h"

namespace shadowprof::profile {
namespace {

const InlinedFunction* row_named(const Profile& p, std::string_view name) {
  for (const InlinedFunction& f : p.inlined)
    if (f.name == name) return &f;
  return nullptr;
}

TEST_CASE("rows of one function become one, and places of one call") {
  InlinedTable rows = {
      {1, "b", "", "b.h", 3, 5, 3, 7, 10, 1, {{0x20, "x.c", 9, 5}}},
      {0, "b", "", "b.h", 3, 1, 0, 1, 0, 0, {}},
      {1, "b", "_Zb", "b.h", 3, 6, 4, 6, 20, 2, {{0x20, "x.c", 9, 4}, {0x10, "x.c", 9, 2}}},
      {1, "b", "", "b.h", 4, 8, 0, 8, 0, 0, {}}};
  normalise_inlined(rows);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].module == 0);
  CHECK(rows[1].self == 11);
  CHECK(rows[1].self_error == 5);
  CHECK(rows[1].inclusive == 13);
  CHECK(rows[1].user_ns == 30);
  CHECK(rows[1].kernel_ns == 3);
  CHECK(rows[1].linkage_name == "_Zb");
  REQUIRE(rows[1].places.size() == 2);
  CHECK(rows[1].places[0].function == 0x10);
  CHECK(rows[1].places[1].self == 9);
  CHECK(rows[2].line == 4);
}

TEST_CASE("a file has what the profile has") {
  const Profile p = test::sample_profile();
  const auto read = parse_profile(profile_json(p));
  REQUIRE(read.has_value());
  CHECK(read->modules[0].inlining_known == 20);
  REQUIRE(read->inlined.size() == 2);
  const InlinedFunction* plain = row_named(*read, "plain");
  REQUIRE(plain != nullptr);
  CHECK(plain->self == 2);
  CHECK(plain->file.empty());
  REQUIRE(plain->places.size() == 1);
  CHECK(plain->places[0].function == 0x10);
  CHECK(plain->places[0].line == 4);
  REQUIRE(read->hotlists.inlined.size() == 2);
  CHECK(read->hotlists.inlined[0].self == 7);
  CHECK(read->hotlists.inlined[0].places == 2);
}

TEST_CASE("merging adds them up, as often as the profile's weight says") {
  Merger merger;
  REQUIRE(merger.add(test::sample_profile(), "a", 1).has_value());
  REQUIRE(merger.add(test::sample_profile(), "b", 3).has_value());
  const Profile sum = merger.finish();
  CHECK(check_consistency(sum).has_value());
  REQUIRE(sum.inlined.size() == 2);
  const InlinedFunction* plain = row_named(sum, "plain");
  REQUIRE(plain != nullptr);
  CHECK(sum.modules[plain->module].path == "/bin/app");
  CHECK(sum.modules[plain->module].inlining_known == 80);
  CHECK(plain->self == 8);
  CHECK(plain->places.size() == 1);
  CHECK(plain->places[0].self == 8);
}

Diff diff_of(const Profile& base, const Profile& now) {
  return compare_profiles(base, {}, now, {});
}

TEST_CASE("a comparison has them, also where their declarations have moved") {
  const Profile base = test::sample_profile();
  Profile now = base;
  now.modules[0].build_id = "00fe";
  now.inlined[1].line = 77;
  now.inlined[1].self = 3;
  now.inlined[1].places = {{0x10, "app.h", 5, 2}, {0x10, "app.h", 9, 1}};
  now.inlined[0].name = "another";
  now.inlined[0].linkage_name.clear();
  const Diff diff = diff_of(base, now);
  CHECK(diff.has_inlined);
  REQUIRE(diff.inlined.size() == 3);
  for (const InlinedChange& c : diff.inlined) {
    CHECK(c.at.module == "/bin/app");
    if (c.at.function == "plain") {
      CHECK(c.presence == Presence::both);
      CHECK(c.self.base == 2);
      CHECK(c.self.now == 3);
      CHECK(c.places.delta() == 1);
      CHECK(c.at.line == 77);
    } else {
      CHECK(c.presence == (c.at.function == "another" ? Presence::added : Presence::removed));
    }
  }
}

TEST_CASE("what one profile knows nothing about is no change") {
  const Profile base = test::sample_profile();
  Profile now = base;
  now.modules[0].inlining_known = 0;
  now.inlined.clear();
  const Diff diff = diff_of(base, now);
  CHECK(!diff.has_inlined);
  CHECK(diff.inlined.empty());
  const auto rule = parse_limit_rule("inlined:plain:instructions<=+0");
  REQUIRE(rule.has_value());
  CHECK(!check_limits(diff, {*rule}).has_value());
}

TEST_CASE("a limit judges an inlined function by its own name for it") {
  const Profile base = test::sample_profile();
  Profile now = base;
  now.inlined[1].self = 3;
  now.inlined[1].places[0].self = 3;
  const Diff diff = diff_of(base, now);
  const auto found = [&](const char* text) {
    const auto rule = parse_limit_rule(text);
    REQUIRE(rule.has_value());
    return check_limits(diff, {*rule});
  };
  const auto broken = found("inlined:plain:instructions<=+10%");
  REQUIRE(broken.has_value());
  REQUIRE(broken->size() == 1);
  CHECK(broken->at(0).subject == "instructions of plain in app (inlined)");
  CHECK(broken->at(0).change.now == 3);
  for (const char* passes : {"inlined:plain:instructions<=+60%", "inlined:plain:inclusive<=+0",
                             "inlined:plain:share<=50%", "inlined:*:instructions<=+1"}) {
    CAPTURE(passes);
    const auto none = found(passes);
    REQUIRE(none.has_value());
    CHECK(none->empty());
  }
  const auto misspelt = found("inlined:plane:instructions<=+1%");
  REQUIRE(!misspelt.has_value());
  CHECK(misspelt.error().message.find("neither profile has an inlined function plane") !=
        std::string::npos);
  const auto called = found("function:plain:instructions<=+1%");
  REQUIRE(!called.has_value());
  CHECK(called.error().message.find("inlined:plain:instructions") != std::string::npos);
  CHECK(!parse_limit_rule("inlined:plain:calls<=+1%").has_value());
}

TEST_CASE("a table that does not add up is refused") {
  Profile p = test::sample_profile();
  CHECK(check_consistency(p).has_value());
  p.inlined[0].self++;
  CHECK(!check_consistency(p).has_value());
  p = test::sample_profile();
  p.modules[0].inlining_known = 8;
  CHECK(!check_consistency(p).has_value());
  p.modules[0].inlining_known = 1000;
  CHECK(!check_consistency(p).has_value());
  p = test::sample_profile();
  p.inlined[0].module = 2;
  CHECK(!check_consistency(p).has_value());
}

}  // namespace
}  // namespace shadowprof::profile
