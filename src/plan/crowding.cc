// SPDX-License-Identifier: MIT
#include "plan/crowding.h"

#include <algorithm>

namespace shadowprof::plan {
namespace {

// Until a thread that was stopped runs again, at most, where a core is idle.
constexpr double kWakeUp_s = 50e-6;

double waiting_share(const Waiting& replica) {
  const double woken_s = kWakeUp_s * static_cast<double>(replica.stops);
  const double waited_s = std::max(0.0, replica.waited_s - woken_s);
  return waited_s / std::max(1e-9, replica.used_s + waited_s);
}

}  // namespace

bool Crowding::is_crowded_out(const Waiting& replica) {
  return waiting_share(replica) > kCrowdedShare;
}

double Crowding::ended(const Waiting& replica, double ours, size_t living) {
  const double cost = charge(replica.used_s + ours);
  const double waiting = waiting_share(replica);
  if (living > 1 && max_shadows_ > 1) {
    judge_company(waiting, living);
    return cost;
  }
  if (waiting < kRoomyShare) shadows_ = std::min(shadows_ + 1, max_shadows_);
  at_idle_priority_ = at_idle_priority_ ? waiting <= kCrowdedShare : waiting < kRoomyShare;
  return cost;
}

void Crowding::judge_company(double waiting, size_t living) {
  if (waiting > kCrowdedShare) {
    shadows_ = std::max<size_t>(1, std::min(shadows_, living) - 1);
  } else if (waiting < kRoomyShare) {
    shadows_ = std::min(shadows_ + 1, max_shadows_);
  }
}

}  // namespace shadowprof::plan
