// SPDX-License-Identifier: MIT
#include "report/leads.h"

#include <doctest/doctest.h>

#include "../profile/sample_profile.h"
#include "report/text_report.h"

namespace shadowprof {
namespace {

using profile::Place;
using profile::Profile;
using report::find_leads;
using report::Lead;

constexpr double kCycles = 1e9;

// A second of processor time, of a billion cycles and as many instructions; find() has a part.
Profile one_second(double find_share, double cycles_per_insn = 0) {
  Profile p;
  p.run.mode = "full";
  p.run.duration_s = 1;
  p.coverage.instructions_total = p.coverage.instructions_profiled = 1'000'000'000;
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 1000;
  p.time.cycles_per_s = kCycles;
  profile::HotMethod find;
  find.at = {"app", 0x100, "find", "app.c", 3};
  find.self_share = 0.1;
  find.invocations = 1'000'000;
  find.time.share = find_share;
  find.time.user_s = find_share;
  find.time.cycles_per_insn = cycles_per_insn;
  p.hotlists.methods.push_back(find);
  return p;
}

profile::HotLoad load_in_find(double lost_cycles, double mean, double from_memory) {
  profile::HotLoad load;
  load.at = {"app", 0x120, "find", "app.c", 5};
  load.executions = load.timed = 1'000'000;
  load.mean_cycles = mean;
  load.classes = {1 - from_memory, 0, 0, from_memory};
  load.lost_cycles = lost_cycles;
  return load;
}

profile::HotArgument argument_of_find(double invariance, uint64_t count) {
  profile::HotArgument a;
  a.site = {"app", 0x20, "main", "app.c", 30};
  a.callee = {"app", 0x100, "find", "app.c", 3};
  a.reg = "rsi";
  a.advice = "specialise";
  a.figures.count = count;
  a.figures.invariance = invariance;
  a.figures.values = {{8, count, invariance}};
  return a;
}

bool says(const Lead& lead, std::string_view words) {
  return lead.text.find(words) != std::string::npos;
}

profile::HotSharing shared_by_find(profile::SharingKind kind, uint64_t count, uint64_t lines) {
  profile::HotSharing s;
  s.kind = kind;
  s.from = {"app", 0x120, "find", "app.c", 5};
  s.to = {"app", 0x220, "count", "app.c", 9};
  s.count = count;
  s.lines = lines;
  s.line = {"app", 0x4000};
  return s;
}

TEST_CASE("a line that goes to and fro between threads is at stake, once") {
  Profile p = one_second(0.4);
  using profile::SharingKind;
  p.hotlists.sharing = {shared_by_find(SharingKind::false_sharing, 1'000'000, 1),
                        shared_by_find(SharingKind::false_sharing, 900'000, 1)};
  auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.1));  // 100 cycles each time
  CHECK(leads[0].at->line == 5);
  CHECK(says(leads[0], "count app.c:9"));
  CHECK(says(leads[0], "put the two 64 bytes apart"));
  p.hotlists.sharing = {shared_by_find(SharingKind::true_sharing, 1'000'000, 1)};
  CHECK(says(find_leads(p, 8).at(0), "let each thread have its own"));
  // Handed over, and not to and fro.
  p.hotlists.sharing = {shared_by_find(SharingKind::true_sharing, 1'000'000, 64'000)};
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("a load that misses is at stake with what it loses, within its function's time") {
  Profile p = one_second(0.4);
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.3));
  REQUIRE(leads[0].at);
  CHECK(leads[0].at->line == 5);
  CHECK(
      says(leads[0], "the load takes 300 cycles: 0.0% come from the L3 cache, 90.0% from memory"));
  p.hotlists.load_latency[0].lost_cycles = 0.9 * kCycles;
  leads = find_leads(p, 8);
  CHECK(leads[0].stake ==
        doctest::Approx(0.4 - 0.025));  // a tenth of the instructions, four a cycle
}

TEST_CASE("a load counts with the least that it can lose, however badly its mean is known") {
  Profile p = one_second(0.4);
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  p.hotlists.load_latency[0].mean_error = 200;  // of a million executions: a fifth of the time
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(find_leads(p, 8)[0].stake == doctest::Approx(0.1));
  p.hotlists.load_latency[0].mean_error = 50;
  p.hotlists.load_latency[0].cold_error = 250;
  CHECK(find_leads(p, 8)[0].stake == doctest::Approx(0.05));
  p.hotlists.load_latency[0].cold_error = 295;  // half a percent at least
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(find_leads(p, 8)[0].is_maybe);
}

TEST_CASE("a load that may be slow by a replica's caches alone is named behind the others") {
  Profile p = one_second(0.4);
  profile::HotLoad cold = load_in_find(0, 300, 0.9);
  cold.mean_error = 20;
  cold.cold_error = 299;
  p.hotlists.load_latency = {cold};
  p.hotlists.methods[0].time.kernel_s = 0.2;
  auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(says(leads[0], "the kernel works"));
  CHECK(leads[1].is_maybe);
  CHECK(leads[1].stake == doctest::Approx(0.3).epsilon(0.05));
  CHECK(says(leads[1], "the load takes 300 cycles in samples"));
  CHECK(report::sentence_of(leads[1], p).starts_with("maybe 29.6% of"));
  p.hotlists.load_latency[0].mean_error = 310;  // by chance as well
  CHECK(find_leads(p, 8).size() == 1);
  p.hotlists.load_latency = {cold, load_in_find(0.2 * kCycles, 200, 0.9)};  // one is certain
  leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(!leads[0].is_maybe);
  CHECK(!leads[1].is_maybe);
}

TEST_CASE("a load in a function that the clock hardly met is no finding") {
  Profile p = one_second(0.4);
  p.modules.emplace_back().path = "app";
  profile::Function& init = p.functions.emplace_back();
  init.at = {0, 0x800};
  init.size = 0x40;
  init.name = "init";
  init.user_ns = 2'000'000;
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  p.hotlists.load_latency[0].at = {"app", 0x810, "init", "", 0};
  CHECK(find_leads(p, 8).empty());
  init.user_ns = 100'000'000;
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.1));
}

TEST_CASE("loads of a function share the time in which it can have waited") {
  Profile p = one_second(0.4);
  p.hotlists.load_latency = {load_in_find(0.6 * kCycles, 300, 0.9),
                             load_in_find(0.2 * kCycles, 100, 0.3)};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(leads[0].stake == doctest::Approx(0.375 * 0.75));
  CHECK(leads[1].stake == doctest::Approx(0.375 * 0.25));
  p.hotlists.methods[0].self_share = 1;  // it cannot execute faster than it does
  p.hotlists.methods[0].time.share = p.hotlists.methods[0].time.user_s = 0.25;
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("a load is a finding by what the caches behind the second cost it") {
  Profile p = one_second(0.4);
  profile::LatencyCalibration host;
  host.typical = {4, 12, 40, 300};
  p.run.host.latency = host;
  profile::HotLoad near = load_in_find(0.3 * kCycles, 7, 0);
  near.classes = {0.995, 0, 0.005, 0};
  p.hotlists.load_latency = {near};
  near.executions = near.timed = 100'000'000;
  p.hotlists.load_latency = {near};
  CHECK(find_leads(p, 8).empty());
  // It loses 90 cycles, 0.2 x 296 by memory, though more come from the L3 cache.
  profile::HotLoad load = load_in_find(90e6, 94, 0.2);
  load.classes = {0.2, 0, 0.6, 0.2};
  p.hotlists.load_latency = {load};
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(says(find_leads(p, 8)[0], "60.0% come from the L3 cache, 20.0% from memory; put what"));
  p.hotlists.load_latency[0].stride = 64;
  CHECK(says(find_leads(p, 8)[0], "its addresses are 64 apart: prefetch"));
  load = load_in_find(30e6, 34, 0.01);
  load.classes = {0.2, 0, 0.79, 0.01};
  p.hotlists.load_latency = {load};
  CHECK(says(find_leads(p, 8)[0], "make what it works on smaller"));
}

TEST_CASE("what is found in a library names the program's call") {
  Profile p = one_second(0.4);
  profile::HotMethod compare;
  compare.at = {"libc.so.6", 0x900, "memcmp", "memcmp.S", 100};
  compare.self_share = 0.1;
  compare.time.share = compare.time.user_s = 0.3;
  compare.invocations = 1000;
  p.hotlists.methods.push_back(compare);
  profile::HotLoad load = load_in_find(0.2 * kCycles, 300, 0.9);
  load.at = {"libc.so.6", 0x920, "memcmp", "memcmp.S", 120};
  p.hotlists.load_latency = {load};
  CHECK(!says(find_leads(p, 8)[0], "called from"));
  profile::HotCallPair call;
  call.site = {"app", 0x130, "find", "app.c", 7};
  call.callee = compare.at;
  call.count = 950;
  profile::HotCallPair other = call;
  other.site = {"app", 0x30, "main", "app.c", 31};
  other.count = 50;
  p.hotlists.call_pairs = {call, other};
  CHECK(says(find_leads(p, 8)[0], "called from find app.c:7, the load takes"));
  p.hotlists.call_pairs[1].count = 500;
  CHECK(!says(find_leads(p, 8)[0], "called from"));
}

TEST_CASE("a function that is called again and again in each call of another") {
  Profile p = one_second(0.1);
  profile::HotMethod compare;
  compare.at = {"libc.so.6", 0x900, "strcmp", "", 0};
  compare.self_share = 0.1;
  compare.time.share = compare.time.user_s = 0.5;
  compare.invocations = 250'000'000;
  p.hotlists.methods.push_back(compare);
  profile::HotCallPair call;
  call.site = {"app", 0x130, "find", "app.c", 7};
  call.callee = compare.at;
  call.count = 200'000'000;
  call.share = 0.8;
  p.hotlists.call_pairs = {call};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.4));
  CHECK(leads[0].at->line == 7);
  CHECK(says(leads[0], "strcmp is called some 200 times in each call of find; look for a way"));
  p.hotlists.methods[0].invocations = 100'000'000;  // twice in each
  CHECK(find_leads(p, 8).empty());
  p.hotlists.methods[0].invocations = 2;  // too few to know
  CHECK(find_leads(p, 8).empty());
  p.hotlists.methods[0].invocations = 1000;  // a loop over all that there is
  CHECK(find_leads(p, 8).empty());
  p.coverage.estimated = true;  // a hundredth of it, in 4 calls: 30 to 60 times
  p.coverage.samples = 50;
  p.coverage.instructions_profiled = 10'000'000;
  p.hotlists.call_pairs[0].count = p.hotlists.methods[1].invocations = 183;
  p.hotlists.methods[0].invocations = 4;
  CHECK(find_leads(p, 8).empty());  // of 46 each, 400 calls are no more than a loop's
  p.coverage.instructions_profiled = 1'000'000;
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(says(find_leads(p, 8)[0], "called some 46 times"));
  p.hotlists.call_pairs[0].count = 50;  // could be 6 as well
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("an argument is at stake with the time of the calls that pass it") {
  Profile p = one_second(0.4);
  p.hotlists.arguments = {argument_of_find(0.98, 500'000), argument_of_find(0.95, 400'000)};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.5 * 0.98 * 0.4));
  CHECK(says(leads[0], "98.0% of these calls of find pass 8 in rsi; specialise"));
  p.hotlists.arguments = {argument_of_find(1, 20)};  // too few to be a habit
  p.hotlists.methods[0].invocations = 20;
  CHECK(find_leads(p, 8).empty());
  p.hotlists.arguments = {argument_of_find(0.98, 500'000), argument_of_find(0.95, 400'000)};
  p.hotlists.methods[0].invocations = 1'000'000;
  p.hotlists.arguments[0].is_address = p.hotlists.arguments[1].is_address = true;
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("an argument's callee has the time of what does its work, and places that pass it join") {
  Profile p = one_second(0.1);
  profile::HotMethod inner;
  inner.at = {"app", 0x800, "find_in", "app.c", 90};
  inner.self_share = 0.3;
  inner.time.share = inner.time.user_s = 0.4;
  inner.invocations = 1'000'000;
  p.hotlists.methods.push_back(inner);
  profile::HotCallPair work;
  work.site = {"app", 0x140, "find", "app.c", 9};
  work.callee = inner.at;
  work.count = 1'000'000;
  p.hotlists.call_pairs = {work};
  p.hotlists.arguments = {argument_of_find(1, 600'000), argument_of_find(1, 400'000)};
  p.hotlists.arguments[1].site.offset = 0x28;
  auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.5));
  CHECK(says(leads[0], "pass 8 in rsi (as 1 more place); specialise"));
  p.hotlists.arguments[1].figures.values[0].value = 9;
  leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(leads[0].stake == doctest::Approx(0.3));
  CHECK(leads[1].stake == doctest::Approx(0.2));
  p.hotlists.call_pairs[0].count = 5'000'000;  // not once in each call
  CHECK(find_leads(p, 8)[0].stake == doctest::Approx(0.06));
}

TEST_CASE("values of one function are one finding, and no instruction takes more than its mean") {
  Profile p = one_second(0.2);
  p.hotlists.methods[0].self_share = 0.8;  // a quarter of a cycle for each instruction
  profile::HotValue value;
  value.at = {"app", 0x120, "find", "app.c", 5};
  value.disassembly = "mov eax, [rdi]";
  value.semi_invariant = true;
  value.advice = "specialise";
  value.figures.count = 80'000'000;
  value.figures.invariance = 0.97;
  value.figures.values = {{7, 77'600'000, 0.97}};
  profile::HotValue hotter = value;
  hotter.at.line = 6;
  hotter.figures.count = 160'000'000;
  p.hotlists.values = {value, hotter};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.04));
  CHECK(leads[0].at->line == 6);
  CHECK(says(leads[0], "gives 7 in 97.0%; specialise (1 more in it)"));
}

TEST_CASE("a slow function is one unless a load of it says why") {
  Profile p = one_second(0.4, 12);
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(says(find_leads(p, 8)[0], "each takes 12.0 cycles"));
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(says(leads[0], "the load"));
}

TEST_CASE("a call through a pointer with one target, and a division by one number") {
  Profile p = one_second(0.4);
  profile::HotTargets call;
  call.at = {"app", 0x40, "main", "app.c", 33};
  call.kind = profile::EdgeKind::indirect_call;
  call.count = 20'000'000;
  call.targets = {{{"app", 0x100, "find", "app.c", 3}, call.count, 1.0}};
  p.hotlists.targets = {call};
  profile::HotValue value;
  value.at = {"app", 0x60, "main", "app.c", 35};
  value.disassembly = "idiv rcx";
  value.semi_invariant = true;
  value.advice = "test for it first";
  value.figures.count = 10'000'000;
  value.figures.invariance = 0.97;
  value.figures.values = {{7, 9'700'000, 0.97}};
  p.hotlists.values = {value};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(says(leads[0], "idiv rcx gives 7 in 97.0%; test for it first"));
  CHECK(leads[0].stake == doctest::Approx(0.18));
  CHECK(says(leads[1], "goes to find in 100.0%"));
  CHECK(leads[1].stake == doctest::Approx(0.06));
  CHECK(find_leads(p, 1).size() == 1);
}

// Taken a hundred million times, of as many instructions as there are cycles.
Profile with_branch(uint64_t to, uint64_t not_taken) {
  Profile p = one_second(0.4);
  p.modules.resize(1);
  p.modules[0].path = "app";
  profile::HotEdge edge;
  edge.from = {"app", 0x120, "find", "app.c", 5};
  edge.to = {"app", to, "find", "app.c", 7};
  edge.kind = profile::EdgeKind::taken;
  edge.count = 100'000'000;
  profile::HotEdge next = edge;
  next.to.offset = 0x122;
  next.kind = profile::EdgeKind::not_taken;
  next.count = not_taken;
  p.hotlists.edges = {edge, next};
  p.tables.edges = {{{0, 0x120}, {0, 0x122}, profile::EdgeKind::not_taken, not_taken},
                    {{0, 0x120}, {0, to}, profile::EdgeKind::taken, edge.count}};
  return p;
}

TEST_CASE("a branch that skips what is next nearly always, unless it is a loop's") {
  const auto leads = find_leads(with_branch(0x140, 5'000'000), 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.05));
  CHECK(says(leads[0], "skips what is next in 95.2%"));
  CHECK(find_leads(with_branch(0x140, 20'000'000), 8).empty());
  CHECK(find_leads(with_branch(0x100, 5'000'000), 8).empty());
}

TEST_CASE("findings are of all rows that the profile has, not of its hotlists alone") {
  Profile p = with_branch(0x140, 5'000'000);
  p.functions.resize(1);
  p.functions[0].at = {0, 0x100};
  p.functions[0].size = 0x200;
  p.functions[0].name = "find";
  p.functions[0].user_ns = 400'000'000;
  p.tables.edges.clear();
  for (uint64_t loop = 0; loop < 30; loop++)  // each is hotter than the branch
    p.tables.edges.push_back(
        {{0, 0x200 + loop}, {0, 0x200}, profile::EdgeKind::taken, 200'000'000 + loop});
  const profile::EdgeTable branch = {
      {{0, 0x120}, {0, 0x122}, profile::EdgeKind::not_taken, 5'000'000},
      {{0, 0x120}, {0, 0x140}, profile::EdgeKind::taken, 100'000'000}};
  p.tables.edges.insert(p.tables.edges.begin(), branch.begin(), branch.end());
  p.hotlists = profile::compute_hotlists(p, 20);
  REQUIRE(p.hotlists.edges.size() == 20);
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].at->function == "find");
  CHECK(leads[0].at->offset == 0x120);
  CHECK(says(leads[0], "skips what is next in 95.2%"));
}

TEST_CASE("a division by one number is at stake with the division's cycles") {
  Profile p = one_second(0.4);
  profile::HotValue value;
  value.at = {"app", 0x120, "find", "app.c", 5};
  value.disassembly = "div qword ptr [rdi]";
  value.part = profile::ValuePart::divisor;
  value.semi_invariant = true;
  value.advice = "test for that divisor first";
  value.figures.count = 10'000'000;
  value.figures.invariance = 1;
  value.figures.values = {{10, 10'000'000, 1}};
  profile::HotValue quotient = value;  // which follows from it
  quotient.part = profile::ValuePart::result;
  quotient.figures.values = {{4, 10'000'000, 1}};
  p.hotlists.values = {quotient, value};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.18));
  CHECK(says(leads[0], "div qword ptr [rdi] divides by 10 in 100.0%; test for that divisor first"));
  p.hotlists.values = {value};
  p.hotlists.values[0].disassembly.clear();  // whether the code says it is not known
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("loads and stores that nobody needs") {
  Profile p = one_second(0.4);
  profile::HotAccessPair load;
  load.kind = profile::PairKind::redundant_load;
  load.from = Place{"app", 0x110, "find", "app.c", 4};
  load.to = {"app", 0x120, "find", "app.c", 5};
  load.count = 50'000'000;
  load.share = 0.95;
  load.share_error = 0;
  p.hotlists.waste = {load};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.05));
  CHECK(leads[0].at->line == 5);
  CHECK(says(leads[0], "it loads what find app.c:4 had already, with no store between, in 95.0%"));
  profile::HotAccessPair store = load;
  store.kind = profile::PairKind::dead_store;
  store.count = 60'000'000;
  p.hotlists.waste.push_back(store);
  REQUIRE(find_leads(p, 8).size() == 1);
  CHECK(find_leads(p, 8)[0].at->line == 4);
  CHECK(says(find_leads(p, 8)[0], "find app.c:5 overwrites what it stores in 95.0%"));
  CHECK(says(find_leads(p, 8)[0], "(1 more in it)"));
  p.hotlists.waste[0].share_error = p.hotlists.waste[1].share_error = 0.1;
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("the kernel's time, and waiting") {
  Profile p = one_second(0.1);
  p.time.user_s = 0.4;
  p.time.kernel_s = 0.6;
  p.hotlists.methods[0].time.kernel_s = 0.5;
  p.run.duration_s = 4;
  p.time.waiting_s = 3;
  p.time.queued_s = 1.6;
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 2);
  CHECK(leads[0].stake == doctest::Approx(0.5));
  CHECK(says(leads[0], "the kernel works"));
  CHECK(leads[1].stake == doctest::Approx(0.35));
  CHECK(says(leads[1], "for input"));
  // What the host does is no finding, and is said beside them.
  CHECK(report::told_of_busy_host(p).value_or("").find("40.0% of the time") != std::string::npos);
  p.hotlists.methods[0].time.share = 0.8;
  p.hotlists.methods[0].time.kernel_s = 0.15;  // as any code has where others have the processor
  CHECK(find_leads(p, 8).size() == 1);
  p.time.queued_s = 0;
  CHECK(find_leads(p, 8).size() == 1);
  p.time.others_queued_s = 3;
  CHECK(find_leads(p, 8).empty());
  CHECK(report::told_of_busy_host(p).value_or("").find("waited 3.0 s") != std::string::npos);
  p.time.others_queued_s = 0;
  p.time.user_s = 3;  // of other threads, mostly
  p.time.queued_s = 0;
  CHECK(find_leads(p, 8).empty());
  CHECK(!report::told_of_busy_host(p));
}

TEST_CASE("where there is too little for conclusions there are none") {
  Profile p = one_second(0.4);
  p.run.mode = "shadow";
  p.coverage.estimated = true;
  p.coverage.samples = 3;
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("the text has them first, at every width") {
  Profile p = one_second(0.4);
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  report::TextOptions options;
  const std::string text = render_text(p, options);
  CHECK(text.find("Findings") < text.find("Hot functions"));
  CHECK(text.find("  30.0%  find app.c:5: the load takes 300 cycles") != std::string::npos);
  options.filtered = true;
  CHECK(render_text(p, options).find("Findings") == std::string::npos);
}

}  // namespace
}  // namespace shadowprof
