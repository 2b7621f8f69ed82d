// SPDX-License-Identifier: MIT
#include "sample/crowding.h"

#include <algorithm>

namespace shadowprof::sample {
namespace {

// Shares of its life that a replica waited for a processor.
constexpr double kCrowded = 0.7;
constexpr double kRoomy = 0.2;
// Seconds until a thread that was stopped runs again, at most, where a core is idle.
constexpr double kWakeUp = 50e-6;

double waiting_share(const shadow::ProcessorTime& time, const shadow::ExecutorCounts& counts) {
  const double waited = std::max(0.0, time.waited - kWakeUp * static_cast<double>(counts.stops()));
  return waited / std::max(1e-9, time.used + waited);
}

}  // namespace

bool Crowding::is_crowded_out(const shadow::ProcessorTime& time,
                              const shadow::ExecutorCounts& counts) {
  return waiting_share(time, counts) > kCrowded;
}

double Crowding::ended(const shadow::ProcessorTime& time, double ours,
                       const shadow::ExecutorCounts& counts, size_t living) {
  const double cost = cost_of(time.used + ours);
  const double waiting = waiting_share(time, counts);
  if (living > 1 && max_shadows_ > 1) {
    judge_company(waiting, living);
    return cost;
  }
  if (waiting < kRoomy) shadows_ = std::min(shadows_ + 1, max_shadows_);
  at_idle_priority_ = at_idle_priority_ ? waiting <= kCrowded : waiting < kRoomy;
  return cost;
}

void Crowding::judge_company(double waiting, size_t living) {
  if (waiting > kCrowded) {
    shadows_ = std::max<size_t>(1, std::min(shadows_, living) - 1);
  } else if (waiting < kRoomy) {
    shadows_ = std::min(shadows_ + 1, max_shadows_);
  }
}

}  // namespace shadowprof::sample
