// SPDX-License-Identifier: MIT
#include "profile/tables/context_table.h"

#include "profile/compare/merge.h"
#include "profile/file/json_file.h"
#include "profile/profile.h"

#include <doctest/doctest.h>

namespace shadowprof::profile {
namespace {

constexpr uint32_t kNone = kNoContext;

ContextRow code(uint32_t parent, uint64_t offset, uint64_t self, uint64_t calls = 0) {
  return {parent, ContextKind::code, {0, offset}, self, calls};
}

// main (100..200) calls f (300..400) at two places, and f calls itself.
Profile sample() {
  Profile p;
  p.modules.push_back({"/bin/sample", "aa", 0, 1, 1});
  p.coverage.instructions_profiled = p.coverage.attributed = p.coverage.instructions_total = 100;
  p.tables.blocks = {{{0, 100}, 8, 1, 10}, {{0, 300}, 8, 1, 90}};
  p.tables.contexts = {code(kNone, 104, 10), code(0, 300, 20, 3), code(kNone, 140, 0),
                       code(2, 300, 30, 1), code(3, 300, 40, 2)};
  p.confidence.exact = true;
  return p;
}

FunctionTable names() {
  FunctionTable functions(3);
  functions[0].at = {0, 100};
  functions[0].name = "main";
  functions[1].at = {0, 300};
  functions[1].name = "f";
  functions[2].at = {0, 500};
  functions[2].name = "never";
  for (Function& f : functions) f.size = 100;
  return functions;
}

TEST_CASE("places in one function are one row, and inclusive figures count recursion once") {
  Profile p = sample();
  attribute_functions(p, names());
  const ContextTable& rows = p.tables.contexts;
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at.offset == 100);
  CHECK(rows[0].self == 10);
  CHECK(rows[1].parent == 0);
  CHECK(rows[1].self == 50);
  CHECK(rows[1].calls == 4);
  CHECK(rows[2].parent == 1);
  CHECK(rows[2].self == 40);
  REQUIRE(p.functions.size() == 2);
  CHECK(p.functions[0].inclusive == 100);
  CHECK(p.functions[1].inclusive == 90);
}

TEST_CASE("a function that only calls what executed keeps its name") {
  Profile p = sample();
  p.tables.blocks = {{{0, 300}, 8, 1, 100}};
  p.tables.contexts = {code(kNone, 104, 0), code(0, 300, 100)};
  attribute_functions(p, names());
  REQUIRE(p.functions.size() == 2);
  CHECK(p.functions[0].name == "main");
  CHECK(p.functions[0].self == 0);
  CHECK(p.functions[0].inclusive == 100);
}

TEST_CASE("the hottest contexts stay, and nothing is lost of the others") {
  ContextTable rows = {code(kNone, 1, 1)};
  for (uint32_t i = 0; i < 50; i++) rows.push_back(code(0, 10 + i, i));
  const uint64_t before = context_totals(rows)[0];
  keep_hottest_contexts(rows, 5);
  CHECK(rows.size() == 6);
  CHECK(context_totals(rows)[0] == before);
  CHECK(rows.back().kind == ContextKind::other);
  CHECK(rows[1].at.offset == 10 + 46);
}

// What a context has of each of four groups of samples, 100 instructions each.
Profile grouped(const std::vector<uint32_t>& in_first) {
  Profile p = sample();
  p.confidence = {false, 4};
  p.coverage.instructions_profiled = p.coverage.attributed = p.coverage.instructions_total = 400;
  uint32_t first = 0;
  for (const uint32_t n : in_first) {
    first += n;
    // Two places in main are one row in the end.
    p.context_groups.push_back({{{0, n / 2}, {2, n - n / 2}, {4, 100 - n}}, 100});
  }
  p.tables.blocks = {{{0, 100}, 10, 1, first}, {{0, 300}, 90, 1, 400 - first}};
  p.tables.contexts = {code(kNone, 104, first), code(0, 300, 0, 3), code(kNone, 140, 0),
                       code(2, 300, 0, 1), code(3, 300, 400 - first, 2)};
  return p;
}

TEST_CASE("a context's error is that of its share from group to group") {
  Profile same = grouped({25, 25, 25, 25});
  attribute_functions(same, names());
  for (const ContextRow& row : same.tables.contexts) CHECK(row.error == 0);

  Profile p = grouped({10, 40, 10, 40});
  attribute_functions(p, names());
  REQUIRE(p.tables.contexts.size() == 3);
  // sqrt(4 / 3 x 4 x 15^2)
  CHECK(p.tables.contexts[0].error == 35);
  CHECK(p.tables.contexts[1].error == 0);
  CHECK(p.tables.contexts[2].error == 35);
  CHECK(p.context_groups.empty());

  p.hotlists = compute_hotlists(p, 10);
  REQUIRE(p.hotlists.contexts.size() == 2);
  // Student's t with three degrees of freedom: 3.182.
  CHECK(*p.hotlists.contexts[0].share_error == doctest::Approx(3.182 * 35 / 400).epsilon(0.01));
  const auto read = parse_profile(profile_json(p));
  REQUIRE(read.has_value());
  CHECK(read->tables.contexts[2].error == 35);

  Merger merger;
  REQUIRE(merger.add(p, "a", 2).has_value());
  REQUIRE(merger.add(p, "b", 1).has_value());
  CHECK(merger.finish().tables.contexts[0].error == 78);  // of 70 and 35
}

TEST_CASE("a written and read profile has the same contexts") {
  Profile p = sample();
  attribute_functions(p, names());
  p.hotlists = compute_hotlists(p, 10);
  REQUIRE(p.hotlists.contexts.size() == 3);
  CHECK(p.hotlists.contexts[0].instructions == 50);
  REQUIRE(p.hotlists.contexts[0].frames.size() == 2);
  CHECK(p.hotlists.contexts[0].frames[0].function == "main");
  const auto read = parse_profile(profile_json(p));
  REQUIRE(read.has_value());
  CHECK(profile_json(*read) == profile_json(p));
}

TEST_CASE("merging adds contexts up; a profile without any has unknown callers") {
  Profile p = sample();
  attribute_functions(p, names());
  Profile flat = p;
  flat.tables.contexts.clear();
  const auto merged = [](const Profile& a, const Profile& b) {
    Merger merger;
    REQUIRE(merger.add(a, "a", 2).has_value());
    REQUIRE(merger.add(b, "b", 1).has_value());
    return merger.finish();
  };
  CHECK(merged(flat, flat).tables.contexts.empty());
  const Profile twice = merged(p, p);
  CHECK(context_totals(twice.tables.contexts)[0] == 300);
  const Profile mixed = merged(p, flat);
  const std::vector<uint64_t> totals = context_totals(mixed.tables.contexts);
  uint64_t known = 0, unknown = 0;
  for (size_t i = 0; i < totals.size(); i++) {
    const ContextRow& row = mixed.tables.contexts[i];
    if (row.parent == kNone) (row.kind == ContextKind::unknown ? unknown : known) += totals[i];
  }
  CHECK(known == 200);
  CHECK(unknown == 100);
  CHECK(check_consistency(mixed).has_value());
}

TEST_CASE("contexts with more instructions than were profiled are no contexts, even if sums wrap") {
  Profile p = sample();
  CHECK(check_consistency(p).has_value());
  p.tables.contexts[0].self = ~uint64_t{0};
  p.tables.contexts[1].self = 5;
  const Status checked = check_consistency(p);
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().message.find("more instructions are in contexts") == 0);
}

}  // namespace
}  // namespace shadowprof::profile
