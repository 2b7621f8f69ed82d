// SPDX-License-Identifier: MIT
#include "profile/tables/time_table.h"

#include <algorithm>
#include <cmath>

#include "profile/profile.h"

namespace shadowprof::profile {
namespace {

constexpr double kStandardErrorsOf95 = 1.96;

// In whole microseconds: such sums do not depend on their order.
double sum_of_seconds(double a, double b) {
  return (std::round(a * 1e6) + std::round(b * 1e6)) / 1e6;
}

}  // namespace

// A share that was never seen may still be as large as three in N (the rule of three).
double ProcessorTime::error_of(double share) const {
  if (ticks == 0) return 1;
  const auto n = static_cast<double>(ticks);
  const double p = std::clamp(share, 0.0, 1.0);
  return std::min(1.0, std::max(kStandardErrorsOf95 * std::sqrt(p * (1 - p) / n), 3 / n));
}

void add_processor_time(ProcessorTime& into, const ProcessorTime& from) {
  if (!from.is_known()) return;
  if (!into.is_known()) {
    into = from;
    return;
  }
  if (into.source != from.source) into.source = "mixed";
  into.sees_kernel &= from.sees_kernel;
  for (const NamedSeconds& seconds : kTimeSeconds)
    into.*seconds.member = sum_of_seconds(into.*seconds.member, from.*seconds.member);
  into.ticks += from.ticks;
  into.lost += from.lost;
  if (into.cycles_per_s != from.cycles_per_s) into.cycles_per_s = 0;
}

}  // namespace shadowprof::profile
