// SPDX-License-Identifier: MIT
#include "profile/compare/diff.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

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

TEST_CASE("a function of Rust is the same where only the hash in its linker name differs") {
  const auto count = [](uint64_t offset, const char* hash, uint64_t self) {
    Function f = named({0, offset}, "words::count", "lib.rs", self);
    f.linkage_name = std::string("_ZN5words5count17h") + hash + "E";
    return f;
  };
  const Profile base = build("/app", "aa", {count(0x10, "0123456789abcdef", 100)});
  const Profile now = build("/app", "bb", {count(0x30, "fedcba9876543210", 101)});
  const Diff diff = compare_profiles(base, {}, now, {});
  REQUIRE(diff.functions.size() == 1);
  CHECK(diff.functions[0].self.delta() == 1);
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

TEST_CASE("sampled profiles are compared on the scale of the base, with errors") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100)});
  base.confidence = {false, 20};
  base.coverage.estimated = true;
  base.coverage.instructions_total = 1000;
  base.functions[0].self_error = 3;
  base.functions.push_back(named({0, 0x30}, "g", "f.c", 100));
  base.coverage.attributed = 200;
  Profile now = base;
  now.coverage.instructions_total = 1700;
  now.functions[0].self_error = 4;
  now.confidence.groups = 10;
  const Diff diff = compare_profiles(base, {}, now, {});
  CHECK_FALSE(diff.exact);
  CHECK(diff.groups == 10);
  CHECK(diff.instructions.now == 1700);
  CHECK(change_of(diff, "f")->self.base == 500);
  CHECK(change_of(diff, "f")->self.now == 500);
  CHECK(change_of(diff, "f")->error == doctest::Approx(25));
}

// Two functions, one of them moved and its lines shifted.
std::pair<Profile, Profile> rebuilt() {
  Profile base =
      build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100), named({0, 0x40}, "g", "f.c", 100)});
  Profile now =
      build("/app", "bb", {named({0, 0x20}, "f", "f.c", 100), named({0, 0x80}, "g", "f.c", 100)});
  base.functions[1].line = 20;
  now.functions[1].line = 27;
  return {std::move(base), std::move(now)};
}

// f: one line for four bytes from line 1 on; g the same from its first line on.
SourceKnowledge lines_of(const Profile& p) {
  return {
      [&p](CodeRef at) -> std::optional<SourceLine> {
        const Function* f = find_function(p.functions, at);
        if (f == nullptr) return std::nullopt;
        return SourceLine{"f.c", static_cast<uint32_t>(f->line + (at.offset - f->at.offset) / 4)};
      },
      {}};
}

TEST_CASE(
    "a path of a rebuild is the same where its functions and lines are, wherever these moved") {
  auto [base, now] = rebuilt();
  base.tables.paths = {{10, 3, false, {}, {{0, 0x10}, {0, 0x44}, {0, 0x14}}},
                       {5, 2, false, {}, {{0, 0x10}, {0, 0x18}}}};
  now.tables.paths = {{10, 3, false, {}, {{0, 0x20}, {0, 0x84}, {0, 0x86}, {0, 0x24}}},
                      {9, 2, false, {}, {{0, 0x20}, {0, 0x28}}}};
  const Diff diff = compare_profiles(base, lines_of(base), now, lines_of(now));
  CHECK(diff.has_paths);
  REQUIRE(diff.paths.size() == 2);
  CHECK(diff.paths[0].instructions.delta() == 8);
  CHECK(diff.paths[0].count.now == 9);
  CHECK(diff.paths[0].lines.size() == 2);
  CHECK(diff.paths[1].instructions.delta() == 0);
  REQUIRE(diff.paths[1].functions.size() == 3);
  CHECK(diff.paths[1].functions[1].function == "g");
  CHECK(diff.paths[1].at.line == 1);
}

TEST_CASE("a path that begins in code without a line is said to be at the first line after it") {
  Profile p =
      build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100), named({0, 0x40}, "g", "g.c", 9)});
  p.tables.paths = {{10, 4, false, {}, {{0, 0x12}, {0, 0x40}, {0, 0x16}, {0, 0x18}}}};
  const SourceKnowledge lines{[](CodeRef at) -> std::optional<SourceLine> {
                                if (at.offset == 0x12) return std::nullopt;
                                return SourceLine{"f.c", static_cast<uint32_t>(at.offset)};
                              },
                              {}};
  const Diff diff = compare_profiles(p, lines, p, lines);
  REQUIRE(diff.paths.size() == 1);
  CHECK(diff.paths[0].at.function == "f");
  CHECK(diff.paths[0].at.line == 0x16);
}

ValueRow value_row(uint64_t offset, std::vector<ValueCount> top) {
  ValueRow row;
  row.at = {0, offset};
  for (const ValueCount& v : top) row.figures.count += v.count;
  row.figures.top = std::move(top);
  return row;
}

TEST_CASE("values are compared by how often the base's most frequent one is computed") {
  auto [base, now] = rebuilt();
  base.tables.values = {value_row(0x10, {{4096, 90}, {1, 10}}), value_row(0x12, {{7, 50}}),
                        value_row(0x14, {{3, 10}})};
  now.tables.values = {value_row(0x20, {{8192, 100}}), value_row(0x22, {{7, 50}}),
                       value_row(0x24, {{3, 8}, {4, 2}}), value_row(0x26, {{3, 10}})};
  const Diff diff = compare_profiles(base, lines_of(base), now, lines_of(now));
  REQUIRE(diff.values.size() == 3);
  CHECK(diff.values[0].value == 4096);
  CHECK(diff.values[0].invariance.base == 900'000);
  CHECK(diff.values[0].invariance.now == 0);
  CHECK(diff.values[0].effect() == 90);
  // Two instructions on the line where there was one: which of them is the old one is not known.
  CHECK(diff.values[1].value == 3);
  CHECK(diff.values[1].executions.now == 20);
  CHECK(diff.values[1].invariance.now == 900'000);
  CHECK(diff.values[2].effect() == 0);
}

TEST_CASE("the same bits of another type are another value") {
  auto [base, now] = rebuilt();
  base.tables.values = {value_row(0x10, {{2, 100}})};
  now.tables.values = {value_row(0x20, {{2, 100}})};
  now.tables.values[0].type = ValueType::f64;
  const Diff diff = compare_profiles(base, lines_of(base), now, lines_of(now));
  REQUIRE(diff.values.size() == 2);
  CHECK(diff.values[0].executions.base + diff.values[1].executions.base == 100);
  CHECK(diff.values[0].executions.now + diff.values[1].executions.now == 100);
}

TEST_CASE("the difference of two counts that does not fit is the largest that does") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(Change{0, ~0ull}.delta() == kMost);
  CHECK(Change{~0ull, 0}.delta() == -kMost);
  CHECK(Change{~0ull, ~0ull - 5}.delta() == -5);
  CHECK(Change{3, 5}.delta() == 2);
}

TEST_CASE("loads are ranked by the cycles that they lose, with the share that misses") {
  auto [base, now] = rebuilt();
  LatencyRow hit;
  hit.at = {0, 0x10};
  hit.executions = hit.timed = hit.classes[0] = 100;
  hit.cycles = 500;
  hit.histogram = {{5, 100}};
  LatencyRow miss = hit;
  miss.at = {0, 0x20};
  miss.classes = {0, 0, 0, 100, 0};
  miss.cycles = 40'000;
  miss.histogram = {{static_cast<uint32_t>(latency_bucket(400)), 100}};
  base.run.host.latency = now.run.host.latency = LatencyCalibration{1, 1, {5, 14, 50, 400}, {}};
  base.tables.latencies = {hit};
  now.tables.latencies = {miss};
  const Diff diff = compare_profiles(base, lines_of(base), now, lines_of(now));
  REQUIRE(diff.loads.size() == 1);
  CHECK(diff.loads[0].lost_cycles.base == 0);
  CHECK(diff.loads[0].lost_cycles.now == 39'500);
  CHECK(diff.loads[0].misses.now == 1'000'000);
  CHECK(diff.loads[0].at.function == "f");
}

// The row of a function below the row `parent`.
const ContextChange* context_of(const Diff& diff, uint32_t parent, const std::string& name) {
  for (const ContextChange& c : diff.contexts.rows)
    if (c.parent == parent && c.kind == ContextKind::code &&
        diff.contexts.functions[c.function].second.function == name)
      return &c;
  return nullptr;
}

uint32_t row_number(const Diff& diff, const ContextChange* c) {
  return static_cast<uint32_t>(c - diff.contexts.rows.data());
}

TEST_CASE("contexts of a rebuild are the same where functions and callers are, wherever they are") {
  Profile base = build("/old/app", "aa",
                       {named({0, 0x10}, "main", "f.c", 1), named({0, 0x20}, "f", "f.c", 10),
                        named({0, 0x30}, "gone", "f.c", 5)});
  base.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 1, 0, 0},
                          {0, ContextKind::code, {0, 0x20}, 10, 2, 0},
                          {1, ContextKind::code, {0, 0x30}, 5, 1, 0},
                          {kNoContext, ContextKind::unknown, {}, 3, 0, 0}};
  Profile now = build("/new/app", "bb",
                      {named({0, 0x10}, "f", "f.c", 12), named({0, 0x40}, "main", "f.c", 1),
                       named({0, 0x50}, "fresh", "f.c", 7)});
  now.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x40}, 1, 0, 0},
                         {0, ContextKind::code, {0, 0x50}, 7, 1, 0},
                         {0, ContextKind::code, {0, 0x10}, 12, 3, 0},
                         {kNoContext, ContextKind::unknown, {}, 4, 0, 0}};
  const Diff diff = compare_profiles(base, {}, now, {});
  REQUIRE(diff.has_contexts);
  CHECK(diff.contexts.rows.size() == 5);
  const ContextChange* top = context_of(diff, kNoContext, "main");
  REQUIRE(top != nullptr);
  CHECK(top->self.base == 1);
  CHECK(top->self.now == 1);
  const ContextChange* f = context_of(diff, row_number(diff, top), "f");
  REQUIRE(f != nullptr);
  CHECK(f->self.delta() == 2);
  CHECK(f->calls.base == 2);
  CHECK(f->calls.now == 3);
  CHECK(diff.contexts.functions[f->function].first == change_of(diff, "f")->number);
  const ContextChange* gone = context_of(diff, row_number(diff, f), "gone");
  REQUIRE(gone != nullptr);
  CHECK(gone->self.base == 5);
  CHECK(gone->self.now == 0);
  const ContextChange* fresh = context_of(diff, row_number(diff, top), "fresh");
  REQUIRE(fresh != nullptr);
  CHECK(fresh->self.base == 0);
  CHECK(fresh->self.now == 7);
  for (const ContextChange& c : diff.contexts.rows) {
    CHECK((c.parent == kNoContext || c.parent < row_number(diff, &c)));
    if (c.kind == ContextKind::unknown) CHECK(c.self.delta() == 1);
  }
}

TEST_CASE("sampled contexts are on the scale of the base, with the errors of both") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 100)});
  base.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 100, 4, 30}};
  base.confidence = {false, 50};
  base.coverage.estimated = true;
  base.coverage.instructions_total = 1000;
  Profile now = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 200)});
  now.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 200, 4, 80}};
  now.confidence = {false, 50};
  now.coverage.estimated = true;
  now.coverage.instructions_total = 3000;
  const Diff diff = compare_profiles(base, {}, now, {});
  REQUIRE(diff.contexts.rows.size() == 1);
  CHECK(diff.contexts.rows[0].self.base == 1000);
  CHECK(diff.contexts.rows[0].self.now == 1000);
  CHECK(diff.contexts.rows[0].error == doctest::Approx(500));  // 300 and 400
}

TEST_CASE("code without a name is no function of the same number") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 1)});
  base.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x1}, 5, 0, 0},
                          {kNoContext, ContextKind::code, {0, 0x10}, 1, 0, 0}};
  const Diff diff = compare_profiles(base, {}, base, {});
  CHECK(diff.contexts.rows.size() == 2);
}

TEST_CASE("contexts that only one profile has are not compared") {
  Profile base = build("/app", "aa", {named({0, 0x10}, "f", "f.c", 1)});
  Profile now = base;
  now.tables.contexts = {{kNoContext, ContextKind::code, {0, 0x10}, 1, 0, 0}};
  const Diff diff = compare_profiles(base, {}, now, {});
  CHECK(!diff.has_contexts);
  CHECK(diff.contexts.rows.empty());
}

}  // namespace
}  // namespace shadowprof
