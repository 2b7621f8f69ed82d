// SPDX-License-Identifier: MIT
#include "profile/evidence.h"

#include <doctest/doctest.h>

#include "profile/file/json_file.h"
#include "sample_profile.h"

namespace shadowprof {
namespace {

using profile::evidence_of;
using profile::Function;
using profile::Profile;

Profile sampled(uint32_t groups, std::vector<std::pair<uint64_t, uint64_t>> self_and_error) {
  Profile p;
  p.run.mode = "shadow";
  p.coverage.samples = 3;
  p.coverage.estimated = true;
  p.confidence = {false, groups};
  for (const auto& [self, error] : self_and_error) {
    Function f;
    f.at.offset = 16 * p.functions.size();
    f.self = self;
    f.self_error = error;
    p.functions.push_back(f);
  }
  return p;
}

TEST_CASE(
    "there is enough where the hottest functions are known better than by as much as they have") {
  // 31 groups: 2.04 standard errors.
  CHECK(evidence_of(sampled(31, {{1000, 100}, {500, 400}})).enough);
  CHECK(evidence_of(sampled(31, {{1000, 480}})).enough);
  CHECK_FALSE(evidence_of(sampled(31, {{1000, 500}})).enough);
  // The certain ones have half of what all have, or less.
  CHECK(evidence_of(sampled(31, {{500, 400}, {500, 100}})).enough);
  CHECK_FALSE(evidence_of(sampled(31, {{501, 400}, {499, 100}})).enough);
}

TEST_CASE("rows beyond the tenth do not matter") {
  std::vector<std::pair<uint64_t, uint64_t>> rows(200, {10, 100});
  for (size_t i = 100; i < 110; i++) rows[i] = {100, 10};
  CHECK(evidence_of(sampled(31, rows)).enough);
}

TEST_CASE("one sample is too little, and what helps is said") {
  Profile p = sampled(1, {{1000, 0}});
  p.coverage.samples = 1;
  CHECK_FALSE(evidence_of(p).enough);
  CHECK(evidence_of(p).advice ==
        "too little for conclusions: 1 sample; profile for longer, raise --max-overhead, or use "
        "--mode full");
}

TEST_CASE("what others did is said, and why there is no sample then") {
  Profile p = sampled(0, {{1000, 0}});
  p.coverage.samples = 0;
  CHECK_FALSE(profile::what_others_did(p));
  p.overhead.program_cpu_s = 2;
  p.overhead.unfollowed_cpu_s = 1.5;
  const std::string others =
      "processes that it started had 1.50 of 2.00 s of processor time and are not in the profile; "
      "-f profiles them, too";
  CHECK(profile::what_others_did(p) == others);
  CHECK(evidence_of(p).advice == "no samples: " + others);
}

TEST_CASE("samples that have not met most of the code are too little") {
  Profile p = sampled(31, {{1000, 100}});
  p.tables.blocks = {{{0, 0}, 16, 10, 4}};
  p.time = {.source = "cpu-clock", .user_s = 1, .ticks = 100};
  p.tables.time = {{{0, 8}, 0, 500}, {{0, 32}, 0, 500}};
  CHECK(profile::unmet_time_share(p) == 0.5);
  CHECK(evidence_of(p).enough);
  p.tables.time[1].user_ns = 501;
  CHECK_FALSE(evidence_of(p).enough);
  CHECK(evidence_of(p).advice.find("no sample met the code that had 50 % of it") !=
        std::string::npos);
}

TEST_CASE("where errors are not known samples are counted") {
  Profile p = sampled(0, {{1000, 0}});
  p.coverage.samples = profile::kFewSamples - 1;
  CHECK_FALSE(evidence_of(p).enough);
  p.coverage.samples = profile::kFewSamples;
  CHECK(evidence_of(p).enough);
}

TEST_CASE("a profile without samples says why") {
  Profile p = sampled(0, {});
  p.coverage.samples = 0;
  p.run.duration_s = 0.25;
  const auto says = [&](const char* text) {
    return evidence_of(p).advice.find(text) != std::string::npos;
  };
  CHECK(says("none was due in 0.250 s"));
  p.run.exit = profile::Exit{};
  CHECK(says("ended before the first one, after 0.250 s; --mode full profiles all of it"));
  p.run.options["duration"] = "0.2";
  CHECK(says("none was due in 0.250 s (-d)"));
  p.run.options["duration"] = "3";
  CHECK(says("ended before the first one"));
  p.run.options["only"] = "rare";
  p.overhead.stops = {{"elsewhere", 7}};
  CHECK(says("none of 7 looks found the program in rare (--only)"));
  p.overhead.stops = {{"sleeping", 3}};
  CHECK(says("ended before the first one"));
  p.overhead.stops = {{"sleeping", 4}};
  CHECK(says("asleep whenever one was due (4 times in 0.2 s)"));
  p.overhead.stops["stopped"] = 5;
  CHECK(says("was stopped"));
  p.overhead.stops = {{"sleeping", 4}, {"refused", 6}};
  CHECK(says("6 could not be taken; --mode burst needs less"));
  p.run.mode = "burst";
  CHECK(says("6 could not be taken, perhaps as the program was stopped"));
}

TEST_CASE("a profile that ended early is no whole one, and stays so in its file and in sums") {
  Profile p = test::sample_profile();
  CHECK(evidence_of(p).enough);
  CHECK_FALSE(profile::why_incomplete(p));
  p.confidence.exact = false;
  p.coverage.estimated = true;
  p.coverage.ended_early = {{0.5, 12, "process 7 went away"}, {0.6, {}, "another"}};
  p.run.images = {{{"sh"}, 0}, {{"app", "x"}, 0.25}};
  p.run.changes = {{1.5, "values", "1/16"}, {2, "freq", "10"}};
  p.run.start_at = {"app!serve", {}};
  const auto again = profile::parse_profile(profile_json(p));
  REQUIRE(again.has_value());
  CHECK_FALSE(again->coverage.share());
  REQUIRE(again->coverage.ended_early.size() == 2);
  CHECK(again->coverage.ended_early[0].instructions == 12);
  CHECK_FALSE(again->coverage.ended_early[1].instructions);
  CHECK(again->run.images == p.run.images);
  CHECK(again->run.changes == p.run.changes);
  CHECK(again->run.start_at == p.run.start_at);
  CHECK_FALSE(evidence_of(*again).enough);
  CHECK(profile::why_incomplete(*again) ==
        "ended early, after 0.500 s and 12 instructions: process 7 went away (and 1 more)");
  p.confidence.exact = true;
  CHECK_FALSE(check_consistency(p).has_value());
}

}  // namespace
}  // namespace shadowprof
