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

TEST_CASE("a load that misses is at stake with what it loses, within its function's time") {
  Profile p = one_second(0.4);
  p.hotlists.load_latency = {load_in_find(0.3 * kCycles, 300, 0.9)};
  auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.3));
  REQUIRE(leads[0].at);
  CHECK(leads[0].at->line == 5);
  CHECK(says(leads[0], "takes 300 cycles, 90.0% of the time from memory"));
  p.hotlists.load_latency[0].lost_cycles = 0.9 * kCycles;
  leads = find_leads(p, 8);
  CHECK(leads[0].stake == doctest::Approx(0.4));
  p.hotlists.load_latency[0].mean_error = 200;
  CHECK(find_leads(p, 8).empty());
}

TEST_CASE("an argument is at stake with the time of the calls that pass it") {
  Profile p = one_second(0.4);
  p.hotlists.arguments = {argument_of_find(0.98, 500'000), argument_of_find(0.95, 400'000)};
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 1);
  CHECK(leads[0].stake == doctest::Approx(0.5 * 0.98 * 0.4));
  CHECK(says(leads[0], "98.0% of these calls of find pass 8 in rsi; specialise"));
  p.hotlists.arguments[0].is_address = p.hotlists.arguments[1].is_address = true;
  CHECK(find_leads(p, 8).empty());
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

TEST_CASE("the kernel's time, and waiting") {
  Profile p = one_second(0.1);
  p.time.user_s = 0.4;
  p.time.kernel_s = 0.6;
  p.hotlists.methods[0].time.kernel_s = 0.5;
  p.run.duration_s = 2;
  p.time.waiting_s = 2.2;
  p.time.queued_s = 0.8;
  const auto leads = find_leads(p, 8);
  REQUIRE(leads.size() == 3);
  CHECK(leads[0].stake == doctest::Approx(0.7));
  CHECK(says(leads[0], "for input"));
  CHECK(leads[1].stake == doctest::Approx(0.5));
  CHECK(says(leads[1], "the kernel works"));
  CHECK(leads[2].stake == doctest::Approx(0.4));
  CHECK(says(leads[2], "for a processor"));
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
