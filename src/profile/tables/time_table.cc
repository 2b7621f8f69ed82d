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

namespace {

// So many ticks, each of as much time, tell as much of the sum as those of both do of theirs.
uint64_t ticks_of_both(const ProcessorTime& a, const ProcessorTime& b) {
  double all_s = 0, spread = 0;
  for (const ProcessorTime* time : {&a, &b}) {
    all_s += time->seconds();
    if (time->ticks != 0)
      spread += time->seconds() * time->seconds() / static_cast<double>(time->ticks);
  }
  if (spread <= 0) return a.ticks + b.ticks;
  return static_cast<uint64_t>(std::llround(all_s * all_s / spread));
}

// Cycles of both over the time of both; 0 where one is not known, or clocks are not alike.
double cycles_per_s_of_both(const ProcessorTime& a, const ProcessorTime& b) {
  constexpr double kAlike = 0.01;
  const double least = std::min(a.cycles_per_s, b.cycles_per_s);
  const double most = std::max(a.cycles_per_s, b.cycles_per_s);
  const double all_s = a.seconds() + b.seconds();
  if (least <= 0 || most > (1 + kAlike) * least) return 0;
  if (all_s <= 0) return most;
  return std::round((a.cycles_per_s * a.seconds() + b.cycles_per_s * b.seconds()) / all_s);
}

}  // namespace

void add_processor_time(ProcessorTime& into, const ProcessorTime& from) {
  if (!from.is_known()) return;
  if (!into.is_known()) {
    into = from;
    return;
  }
  if (into.source != from.source) into.source = "mixed";
  into.sees_kernel &= from.sees_kernel;
  into.ticks = ticks_of_both(into, from);
  into.cycles_per_s = cycles_per_s_of_both(into, from);
  for (const NamedSeconds& seconds : kTimeSeconds)
    into.*seconds.member = sum_of_seconds(into.*seconds.member, from.*seconds.member);
  into.lost += from.lost;
}

}  // namespace shadowprof::profile
