// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "profile/file/canonical.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using namespace profile;

uint64_t instructions(const CanonicalBlocks& c) {
  return executed_instructions(c.blocks, c.interruptions);
}

TEST_CASE("overlapping blocks with one end are cut at every start") {
  const auto c =
      canonical_blocks({{{0, 0}, 20, 6, 6, true, 10}, {{0, 8}, 12, 3, 3, true, 5}}, nullptr);
  REQUIRE(c.blocks.size() == 2);
  CHECK(c.blocks[0].size == 8);
  CHECK(c.blocks[0].insns == 3);
  CHECK(c.blocks[0].count == 10);
  CHECK(c.blocks[1].insns == 3);
  CHECK(c.blocks[1].count == 15);
  CHECK(instructions(c) == 10 * 6 + 5 * 3);
}

TEST_CASE("blocks with other ends are cut where their distances are known through others") {
  // Size limits of 4: 0..16 and 4..20 end apart, but both go on to the branch at 32.
  const auto c = canonical_blocks({{{0, 0}, 16, 4, 4, false, 7},
                                   {{0, 16}, 16, 4, 4, true, 7},
                                   {{0, 4}, 16, 4, 4, false, 2},
                                   {{0, 20}, 12, 3, 3, true, 2}},
                                  nullptr);
  CHECK(instructions(c) == 7 * 8 + 2 * 7);
  for (size_t i = 1; i < c.blocks.size(); i++)
    CHECK(c.blocks[i - 1].at.offset + c.blocks[i - 1].size == c.blocks[i].at.offset);
  CHECK(c.blocks[1].count == 9);
}

TEST_CASE("size limits leave no boundary") {
  const std::vector<CodeRef> leaders = {{0, 0}};
  const auto c =
      canonical_blocks({{{0, 0}, 16, 4, 4, false, 7}, {{0, 16}, 16, 4, 4, true, 7}}, &leaders);
  REQUIRE(c.blocks.size() == 1);
  CHECK(c.blocks[0].insns == 8);
}

TEST_CASE("a thread that ended in a block is an interruption wherever the block was cut") {
  const std::vector<CodeRef> leaders = {{0, 0}};
  const auto whole =
      canonical_blocks({{{0, 0}, 16, 4, 4, true, 7}, {{0, 0}, 16, 4, 2, true, 1}}, &leaders);
  const auto cut =
      canonical_blocks({{{0, 0}, 8, 2, 2, false, 8}, {{0, 8}, 8, 2, 2, true, 7}}, &leaders);
  for (const auto& c : {whole, cut}) {
    REQUIRE(c.blocks.size() == 1);
    CHECK(c.blocks[0].count == 8);
    REQUIRE(c.interruptions.size() == 1);
    CHECK(c.interruptions[0].executed == 2);
    CHECK(c.interruptions[0].count == 1);
  }
}

TEST_CASE("blocks whose distance is unknown are not cut by each other") {
  const auto c =
      canonical_blocks({{{0, 0}, 20, 6, 6, true, 10}, {{0, 3}, 11, 5, 5, true, 2}}, nullptr);
  REQUIRE(c.blocks.size() == 2);
  CHECK(c.blocks[0].size == 20);
  CHECK(c.blocks[1].size == 11);
  CHECK(c.blocks[1].insns == 5);
}

TEST_CASE("code that changed, or is entered within an instruction, keeps totals exact") {
  const std::vector<Piece> pieces = {{{0, 0}, 20, 6, 6, true, 10},
                                     {{0, 0}, 20, 9, 9, true, 3},   // other code, same place
                                     {{0, 1}, 19, 6, 6, true, 4},   // behind a prefix byte
                                     {{0, 3}, 11, 5, 5, true, 2}};  // other instructions
  const auto c = canonical_blocks(pieces, nullptr);
  CHECK(instructions(c) == 60 + 27 + 24 + 10);
  const auto again = canonical_blocks(pieces_of(c.blocks, c.interruptions), nullptr);
  CHECK(instructions(again) == instructions(c));
}

TEST_CASE("adding a profile to itself doubles every count") {
  const Profile once = test::sample_profile();
  Profile twice = once;
  Profile again = once;
  add_tables(twice, again);
  CHECK(check_consistency(twice).has_value());
  REQUIRE(twice.tables.blocks.size() == once.tables.blocks.size());
  for (size_t i = 0; i < once.tables.blocks.size(); i++)
    CHECK(twice.tables.blocks[i].count == 2 * once.tables.blocks[i].count);
  REQUIRE(twice.tables.edges.size() == once.tables.edges.size());
  CHECK(twice.tables.edges[0].count == 2 * once.tables.edges[0].count);
  CHECK(twice.tables.calls[0].inclusive == 2 * once.tables.calls[0].inclusive);
  CHECK(twice.modules.size() == 2);
}

TEST_CASE("functions own their blocks, entries and loops") {
  const Profile p = test::sample_profile();
  REQUIRE(p.functions.size() == 2);
  CHECK(p.functions[0].name == "main");
  CHECK(p.functions[0].self == 5 * 3 + 4 * 2);
  CHECK(p.functions[0].loop_iterations == 4);
  CHECK(p.functions[1].self == 2 * 4 - 3);
  CHECK(p.functions[1].invocations == 2);
  CHECK(find_function(p.functions, {0, 0x2f})->name == "main");
  CHECK(find_function(p.functions, {0, 0x30}) == nullptr);
  CHECK(find_function(p.functions, {0, 0x0f}) == nullptr);
}

TEST_CASE("hotlists are ranked, limited and name places") {
  const Profile p = test::sample_profile();
  const Hotlists lists = compute_hotlists(p, 1);
  REQUIRE(lists.edges.size() == 1);
  CHECK(lists.edges[0].rank == 1);
  CHECK(lists.edges[0].count == 4);
  CHECK(lists.edges[0].from.offset == 0x18);
  REQUIRE(lists.methods.size() == 1);
  CHECK(lists.methods[0].at.function == "main");
  CHECK(lists.methods[0].at.line == 12);
  CHECK(lists.call_pairs[0].share == doctest::Approx(0.5));
}

TEST_CASE("a path has no more than all, whatever its weight was rounded to") {
  Profile p = test::sample_profile();
  p.tables.paths[0].count = 1000;
  const Hotlists lists = compute_hotlists(p, 2);
  CHECK(lists.paths.at(0).instructions > p.coverage.attributed);
  CHECK(lists.paths.at(0).share == 1);
}

TEST_CASE("the time of a path is known as well as its part of the code is") {
  Profile p = test::sample_profile();
  p.confidence = {.exact = false, .groups = 10};
  p.time = {.source = "cpu-clock", .user_s = 10, .ticks = 1000};
  p.tables.time = {{.at = {0, 0x10}, .thread = 0, .user_ns = 5'000'000'000, .kernel_ns = 0}};
  const auto hottest = [&] { return compute_hotlists(p, 2).paths.at(0).time; };
  REQUIRE(hottest().share > 0.1);
  CHECK(hottest().error == doctest::Approx(p.time.error_of(hottest().share)));
  p.tables.paths[0].error = p.tables.paths[0].count;
  CHECK(hottest().error > hottest().share);
}

TEST_CASE("what is divided by an assumed number is not known") {
  Profile p = test::sample_profile();
  p.confidence = {.exact = true, .groups = 0};
  p.time = {.source = "cpu-clock", .user_s = 10, .ticks = 1000, .cycles_per_s = 2e9};
  p.functions[0].user_ns = 9'000'000'000;
  REQUIRE(compute_hotlists(p, 1).methods.at(0).time.cycles_per_insn > 0);
  p.coverage.assumed_total = true;
  CHECK(compute_hotlists(p, 1).methods.at(0).time.cycles_per_insn == 0);
}

TEST_CASE("what few samples have seen is not called invariant") {
  Profile p = test::sample_profile();
  p.confidence = {.exact = false, .groups = 10};
  ValueRow row;
  row.at = {0, 0x10};
  row.text = "mov rax, rdx";
  row.figures.count = 1;
  row.figures.samples = 1;
  row.figures.top = {{7, 1}};
  p.tables.values = {row};
  const auto told = [&] { return compute_hotlists(p, 1).values.at(0); };
  CHECK(!told().semi_invariant);
  CHECK(told().advice.empty());
  CHECK(!told().figures.invariance_error);
  p.tables.values[0].figures.count = p.tables.values[0].figures.top[0].count = 4;
  p.tables.values[0].figures.samples = 2;
  CHECK(!told().semi_invariant);
  CHECK(*told().figures.invariance_error == doctest::Approx(0.75));
  p.tables.values[0].figures.count = p.tables.values[0].figures.top[0].count = 300;
  CHECK(told().semi_invariant);
  CHECK(*told().figures.invariance_error == doctest::Approx(0.01));
  CHECK(told().advice == "specialise");
  p.tables.values[0].figures.top_error = 100;  // samples differ
  CHECK(!told().semi_invariant);
  p.confidence.exact = true;
  CHECK(told().semi_invariant);
}

TEST_CASE("pages and values are those of loads that lose cycles, and so is the time") {
  Profile p = test::sample_profile();
  p.run.host.latency =
      LatencyCalibration{.resolution = 2, .overhead = 48, .typical = {3, 14, 60, 250}};
  LatencyRow hits, misses;
  hits.at = {0, 0x10};
  hits.executions = hits.timed = hits.classes[0] = 1000;
  hits.cycles = 4'400;
  hits.histogram = {{4, 1000}};
  misses = hits;
  misses.at = {0, 0x14};
  misses.cycles = 250'000;
  misses.classes = {0, 0, 0, 1000, 0};
  misses.histogram = {{latency_bucket(250), 1000}};
  p.tables.latencies = {hits, misses};
  p.tables.latency_pages = {{LatencyClass::dram, {false, {0, 0x1000}}, 50, CodeRef{0, 0x10}},
                            {LatencyClass::l3, {false, {0, 0x2000}}, 20, CodeRef{0, 0x14}}};
  p.tables.latency_values = {{LatencyClass::dram, 9, 50, CodeRef{0, 0x10}},
                             {LatencyClass::l3, 5, 20, CodeRef{0, 0x14}}};
  const Hotlists lists = compute_hotlists(p, 5);
  REQUIRE(lists.load_latency.size() == 2);
  CHECK(lists.load_latency[0].lost_cycles == 247'000);
  CHECK(lists.load_latency[1].lost_cycles == 0);
  REQUIRE(lists.latency_pages.size() == 1);
  CHECK(lists.latency_pages[0].count == 20);
  REQUIRE(lists.latency_values.size() == 1);
  CHECK(lists.latency_values[0].value == 5);

  CHECK(timed_loads_time_share(p) == 1);
  p.tables.time = {{.at = {0, 0x10}, .thread = 0, .user_ns = 300, .kernel_ns = 0},
                   {.at = {1, 0}, .thread = 0, .user_ns = 700, .kernel_ns = 0}};
  CHECK(timed_loads_time_share(p) == doctest::Approx(0.3));
}

TEST_CASE("a function is to be memoised if each of its arguments has few contents") {
  Profile p = test::sample_profile();
  ValueFigures few;
  few.count = 10'000;
  few.distinct = 2;
  few.top = {{1, 6000}, {2, 4000}};
  ValueFigures many = few;
  many.distinct = 3000;
  many.top = {{7, 400}};
  p.tables.arguments = {{{0, 0x18}, {1, 0}, 0, few}, {{0, 0x18}, {1, 0}, 1, few}};
  CHECK(compute_hotlists(p, 2).arguments[0].advice == "memoise");
  CHECK(compute_hotlists(p, 2).arguments[1].advice == "memoise");
  p.tables.arguments[1].figures = many;
  CHECK(compute_hotlists(p, 2).arguments[0].advice.empty());
  p.tables.arguments[1].site.offset = 0x1a;  // other calls
  CHECK(compute_hotlists(p, 2).arguments[0].advice == "memoise");
}

TEST_CASE("broken conservation is noticed") {
  Profile p = test::sample_profile();
  p.coverage.dropped.clear();
  CHECK(!check_consistency(p));
  p = test::sample_profile();
  p.tables.blocks[0].count++;
  CHECK(!check_consistency(p));
  p = test::sample_profile();
  p.coverage.instructions_total++;
  CHECK(!check_consistency(p));
}

}  // namespace
}  // namespace shadowprof
