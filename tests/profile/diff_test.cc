// SPDX-License-Identifier: MIT
#include "profile/diff.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;

Function named(CodeRef at, std::string name, std::string file, uint64_t self) {
  Function f;
  f.at = at;
  f.size = 16;
  f.name = std::move(name);
  f.file = std::move(file);
  f.line = 1;
  f.self = self;
  return f;
}

Profile build(std::string path, std::string build_id, FunctionTable functions) {
  Profile p;
  p.run.command = {path};
  p.modules = {{std::move(path), std::move(build_id), 0, 1, 1}};
  p.functions = std::move(functions);
  for (const Function& f : p.functions) p.coverage.attributed += f.self;
  p.coverage.instructions_profiled = p.coverage.instructions_total = p.coverage.attributed;
  p.confidence.exact = true;
  return p;
}

const FunctionChange* change_of(const Diff& diff, const std::string& name) {
  for (const FunctionChange& c : diff.functions)
    if (c.at.function == name) return &c;
  return nullptr;
}

TEST_CASE("a profile does not differ from itself") {
  const Profile p = test::sample_profile();
  const Diff diff = compare_profiles(p, {}, p, {});
  CHECK(diff.instructions.delta() == 0);
  for (const auto& f : diff.functions) CHECK(f.self.delta() == 0);
  for (const auto& e : diff.edges) CHECK(e.count.delta() == 0);
  for (const auto& c : diff.call_pairs) CHECK(c.count.delta() == 0);
}

TEST_CASE("functions of a rebuild are matched by name wherever they are now") {
  const Profile base = build("/old/app", "aa",
                             {named({0, 0x10}, "f", "f.c", 100), named({0, 0x20}, "g", "g.c", 10),
                              named({0, 0x40}, "gone", "g.c", 3)});
  const Profile now = build("/new/app", "bb",
                            {named({0, 0x50}, "g", "g.c", 10), named({0, 0x90}, "f", "f.c", 150),
                             named({0, 0xa0}, "fresh", "g.c", 1)});
  const Diff diff = compare_profiles(base, {}, now, {});
  CHECK(diff.functions[0].at.function == "f");
  CHECK(diff.functions[0].self.delta() == 50);
  CHECK(diff.functions[0].presence == Presence::both);
  CHECK(change_of(diff, "g")->self.delta() == 0);
  CHECK(change_of(diff, "gone")->presence == Presence::removed);
  CHECK(change_of(diff, "fresh")->presence == Presence::added);
  CHECK(diff.functions.size() == 4);
}

TEST_CASE("static functions of one name are told apart by their file") {
  const Profile base = build(
      "/app", "aa", {named({0, 0x10}, "init", "a.c", 100), named({0, 0x20}, "init", "b.c", 10)});
  const Profile now =
      build("/app", "bb",
            {named({0, 0x10}, "init", "src/b.c", 11), named({0, 0x20}, "init", "src/a.c", 100)});
  const Diff diff = compare_profiles(base, {}, now, {});
  REQUIRE(diff.functions.size() == 2);
  CHECK(diff.functions[0].self.base == 10);
  CHECK(diff.functions[0].self.now == 11);
  CHECK(diff.functions[1].self.delta() == 0);
}

TEST_CASE("a clone is the function that it was made of where there is no other") {
  const Profile base = build("/app", "aa", {named({0, 0x10}, "parse", "a.c", 100)});
  const Profile now = build("/app", "bb", {named({0, 0x30}, "parse.constprop.0", "a.c", 90)});
  const Diff diff = compare_profiles(base, {}, now, {});
  REQUIRE(diff.functions.size() == 1);
  CHECK(diff.functions[0].self.delta() == -10);
}

TEST_CASE("functions named after their offset match only in the same build") {
  const FunctionTable stripped = {named({0, 0x10}, "function@0x10", "", 100)};
  const Profile base = build("/app", "aa", stripped);
  CHECK(compare_profiles(base, {}, build("/app", "bb", stripped), {}).functions.size() == 2);
  CHECK(compare_profiles(base, {}, build("/else", "aa", stripped), {}).functions.size() == 1);
}

TEST_CASE("edges of a rebuild are the same where function, line and kind are") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100)});
  Profile now = build("/app", "bb", {named({0, 0x90}, "f", "f.c", 100)});
  base.tables.edges = {{{0, 0x12}, {0, 0x10}, EdgeKind::taken, 5},
                       {{0, 0x14}, {0, 0x10}, EdgeKind::taken, 6}};
  now.tables.edges = {{{0, 0x94}, {0, 0x90}, EdgeKind::taken, 20}};
  const SourceKnowledge lines{[](CodeRef) { return SourceLine{"f.c", 3}; }, {}};
  const Diff diff = compare_profiles(base, lines, now, lines);
  REQUIRE(diff.edges.size() == 1);
  CHECK(diff.edges[0].count.base == 11);
  CHECK(diff.edges[0].count.now == 20);
  CHECK(diff.edges[0].from.line == 3);
}

TEST_CASE("sampled counts are scaled to the run and have noise") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100)});
  base.confidence.exact = false;
  base.coverage.estimated = true;
  base.coverage.instructions_total = 1000;
  base.coverage.samples = 100;
  base.functions.push_back(named({0, 0x30}, "g", "f.c", 100));
  base.coverage.attributed = 200;
  const Diff diff = compare_profiles(base, {}, base, {});
  CHECK_FALSE(diff.exact);
  CHECK(change_of(diff, "f")->self.base == 500);
  // 1.96 * sqrt(0.5 * 0.5 / 100) of 1000 instructions, on both sides.
  CHECK(change_of(diff, "f")->noise == doctest::Approx(98 * 1.41421).epsilon(0.001));
}

}  // namespace
}  // namespace shadowprof
