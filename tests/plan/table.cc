// SPDX-License-Identifier: MIT
//
// Prints what the plan does with each program on each host. Some rules show with a budget of 5 %
// only.
//
//   usage: plan_table [SECONDS [BUDGET_SHARE]]
#include <fmt/format.h>

#include <cstdlib>

#include "rows.h"

namespace shadowprof::plan {
namespace {

void print(const ProgramRow& program, const HostRow& host, const Figures& f) {
  fmt::print(
      "{:<8} {:<6} {:>6.2f} {:>6.2f} {:>6.3f} {:>6} {:>8} {:>7} {:>6} {:>8.3f} {:>7.2f} "
      "{:>5.0f} "
      "{:>7} {:>6.1f}\n",
      program.name, host.name, 100 * f.true_share, 100 * f.estimated_share, f.most_debt_s, f.forks,
      f.later_samples, f.bursts, f.peeks, 100 * f.recorded_share, f.longest_gap_s,
      100 * f.parts_seen_share, f.observations, 100 * f.accuracy_share);
}

}  // namespace
}  // namespace shadowprof::plan

int main(int count, char** arguments) {
  using namespace shadowprof::plan;
  const double seconds = count > 1 ? std::atof(arguments[1]) : 60;
  Wishes wishes;
  if (count > 2) wishes.max_overhead_share = std::atof(arguments[2]);
  fmt::print(
      "{:<8} {:<6} {:>6} {:>6} {:>6} {:>6} {:>8} {:>7} {:>6} {:>8} {:>7} {:>5} {:>7} {:>6}\n",
      "program", "host", "cost %", "est. %", "debt s", "forks", "later", "bursts", "peeks",
      "rec. %", "gap s", "seen", "observ.", "right");
  for (const HostRow& host : host_rows()) {
    for (const ProgramRow& program : program_rows()) {
      const auto plan = planned_policy(wishes);
      print(program, host, simulate(program, host, wishes, *plan, seconds));
    }
  }
}
