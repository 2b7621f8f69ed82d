// SPDX-License-Identifier: MIT
//
// What must hold of whatever decides, for each simulated program on each host.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "rows.h"

namespace shadowprof::plan {
namespace {

constexpr double kLong_s = 10'000;

template <class Check>
void for_each_run(double seconds, const Check& check) {
  for (const HostRow& host : host_rows()) {
    for (const ProgramRow& program : program_rows()) {
      const Wishes wishes;
      const auto policy = planned_policy(wishes);
      const Figures figures = simulate(program, host, wishes, *policy, seconds);
      CAPTURE(program.name);
      CAPTURE(host.name);
      check(program, host, figures);
    }
  }
}

TEST_CASE("the budget is kept at every moment, but for what is lent and one step's surprise") {
  for_each_run(1000, [](const ProgramRow&, const HostRow& host, const Figures& figures) {
    // What a replica costs that lives when prices jump by 100.
    const double surprise_s = host.dearer_times > 1 ? 1 : 0;
    CHECK(figures.most_debt_s < 0.01 * kLoan_s + 2 * figures.dearest_step_s + surprise_s);
    if (host.dearer_times > 1) return;
    CHECK(figures.true_share < 0.0115);
    CHECK(figures.estimated_share == doctest::Approx(figures.true_share).epsilon(0.05));
  });
}

TEST_CASE("a program that cannot be followed is not left unseen for longer than is said") {
  for_each_run(5000, [](const ProgramRow& program, const HostRow& host, const Figures& figures) {
    if (program.threads == 1 && host.busy_core_share == 0) return;  // a replica follows it
    const double burst_s = host.burst_s * host.dearer_times;
    const double gap_s = std::max(kLongestGap_s, burst_s / (0.01 * kLeastKindShare));
    // While a replica lives there are no bursts.
    CHECK(figures.longest_gap_s < gap_s + kLongestGap_s);
  });
}

TEST_CASE("when prices are a hundred times what they were the budget is kept, and samples go on") {
  for_each_run(3000, [](const ProgramRow&, const HostRow& host, const Figures& figures) {
    if (host.dearer_times <= 1) return;
    // What replicas have cost that lived then is a surprise.
    const double surprise_s = 1;
    CHECK(figures.cost_late_s <=
          0.01 * 1500 + figures.dearest_step_s + 0.01 * kLoan_s + surprise_s);
    size_t late = 0;
    for (const Moment& moment : figures.moments) late += moment.now_s > 1500;
    CHECK(late > 20);
  });
}

TEST_CASE("every part of a long run is seen, and shares of code are right") {
  for_each_run(kLong_s, [](const ProgramRow&, const HostRow&, const Figures& figures) {
    CHECK(figures.parts_seen_share == 1);
    CHECK(figures.accuracy_share > 0.93);
  });
}

// Where recording is ten times as slow there must not be fewer, or more, moments.
TEST_CASE("when a sample comes does not depend on what the replica does") {
  for (const char* host : {"quiet", "busy", "small"}) {
    CAPTURE(std::string(host));
    ProgramRow program = program_row("perl");
    program.phases = {{1.1, 0, 4, 1}, {0.9, 1, 40, 1}};
    const Wishes wishes;
    const auto policy = planned_policy(wishes);
    const Figures figures = simulate(program, host_row(host), wishes, *policy, kLong_s);
    CHECK(figures.accuracy_share > 0.97);
  }
}

TEST_CASE("what is spent settles where prices do not change") {
  for_each_run(2000, [](const ProgramRow& program, const HostRow& host, const Figures& figures) {
    if (host.dearer_times > 1) return;
    size_t early = 0, late = 0;
    for (const Moment& moment : figures.moments) {
      if (moment.now_s >= 600 && moment.now_s < 1200) early++;
      if (moment.now_s >= 1200 && moment.now_s < 1800) late++;
    }
    if (early < 500 || program.sleeps_s > 0 || program.grows_pages_per_s > 0 || program.pages > 1e6)
      return;
    CHECK(static_cast<double>(late) == doctest::Approx(static_cast<double>(early)).epsilon(0.15));
  });
}

}  // namespace
}  // namespace shadowprof::plan
