// SPDX-License-Identifier: MIT
#include "report/time_stacks.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace shadowprof {
namespace {

using profile::ContextKind;
using profile::Profile;

profile::Function function(uint64_t offset, const char* name) {
  profile::Function f;
  f.at = {0, offset};
  f.size = 0x100;
  f.name = name;
  return f;
}

// The first thread's lead() and the second's follow() call grind(). Each thread has a second.
Profile crew(uint64_t ticks) {
  Profile p;
  p.modules.emplace_back().path = "/bin/crew";
  p.functions = {function(0, "lead"), function(0x100, "follow"), function(0x200, "grind")};
  p.threads = {{1, 1, "crew"}, {2, 1, "worker"}};
  p.time.source = "cpu-clock";
  p.time.user_s = 2;
  p.time.ticks = ticks;
  constexpr uint64_t kHalf_ns = 500'000'000;
  p.tables.time = {{{0, 8}, 0, kHalf_ns, 0},
                   {{0, 0x108}, 1, kHalf_ns, 0},
                   {{0, 0x208}, 0, kHalf_ns, 0},
                   {{0, 0x208}, 1, kHalf_ns, 0}};
  p.tables.contexts = {{profile::kNoContext, ContextKind::code, {0, 0}, 100},
                       {profile::kNoContext, ContextKind::code, {0, 0x100}, 100},
                       {0, ContextKind::code, {0, 0x200}, 100},
                       {1, ContextKind::code, {0, 0x200}, 100}};
  return p;
}

// Milliseconds by "thread caller" of what grind() took.
std::map<std::string, uint64_t> below(const Profile& profile) {
  std::map<std::string, uint64_t> sums;
  uint64_t all = 0;
  for (const report::ThreadStack& stack : report::time_stacks(profile, symbols::ModuleSet({}))) {
    all += stack.amount;
    if (stack.frames.back().name != "grind") continue;
    const std::string caller = stack.callers.empty() ? "" : stack.callers.back().frame.name;
    sums[profile.threads[stack.thread].name + " " + caller] += stack.amount / 1'000'000;
  }
  CHECK(all == 2'000'000'000);
  return sums;
}

TEST_CASE("a thread's time is below callers that the clock has seen it in") {
  CHECK(below(crew(1000)) ==
        std::map<std::string, uint64_t>{{"crew lead", 500}, {"worker follow", 500}});
}

TEST_CASE("where the clock has ticked seldom it is mostly below these") {
  auto sums = below(crew(16));  // two of them expected in follow(), if the first thread ran it
  CHECK(sums["crew follow"] > 20);
  CHECK(sums["crew follow"] < 100);
  CHECK(sums["crew lead"] + sums["crew follow"] >= 499);
}

TEST_CASE("where no sample has met its own callers they are unknown") {
  Profile p = crew(1000);
  p.tables.contexts.erase(p.tables.contexts.begin() + 2);
  p.tables.contexts[0].self = 200;
  CHECK(below(p) ==
        std::map<std::string, uint64_t>{{"crew [callers unknown]", 500}, {"worker follow", 500}});
}

}  // namespace
}  // namespace shadowprof
