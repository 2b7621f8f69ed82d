// SPDX-License-Identifier: MIT
//
// Whether there is a core for replicas: judged by how long they waited for one. Where there is one
// they run at idle priority, and cost the program what a busy core costs it; where there is
// none they would hardly run, and hold memory all the while: then they run like everybody, and what
// they use is the program's loss. Several that live at a time take cores from one another first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plan/plan_limits.h"

namespace shadowprof::plan {

// How a replica has waited.
struct Waiting {
  double used_s = 0;    // on a processor
  double waited_s = 0;  // for one
  uint64_t stops = 0;   // for its tracer
};

class Crowding {
 public:
  // `busy_core_share`: what the program loses of its speed beside a busy core.
  Crowding(size_t max_shadows, double busy_core_share)
      : max_shadows_(max_shadows), busy_core_share_(busy_core_share), shadows_(max_shadows) {}

  // It was measured again: what others on the machine do only ever adds to it. Returns what
  // charge() has said too much, in seconds.
  double measured_again(double busy_core_share) {
    const double before =
        std::exchange(busy_core_share_, std::min(busy_core_share_, busy_core_share));
    return (before - busy_core_share_) * beside_s_;
  }
  bool at_idle_priority() const { return at_idle_priority_; }
  // So many may live at a time.
  size_t shadows() const { return shadows_; }
  // What `seconds` of ours cost the program.
  double cost_of(double seconds) const {
    return at_idle_priority_ ? busy_core_share_ * seconds : seconds;
  }

  // The same, of seconds that it is to be charged for.
  double charge(double seconds) {
    if (at_idle_priority_) beside_s_ += seconds;
    return cost_of(seconds);
  }

  // A replica that lives has waited most of its life.
  static bool is_crowded_out(const Waiting& replica);
  void give_up_idle_priority() { at_idle_priority_ = false; }
  // One of `living` replicas has ended, and collectors and tracer have used `ours` meanwhile. What
  // both cost the program, in seconds.
  double ended(const Waiting& replica, double ours, size_t living);

 private:
  void judge_company(double waiting, size_t living);

  size_t max_shadows_;
  double busy_core_share_;
  double beside_s_ = 0;  // charged at that share
  size_t shadows_;
  bool at_idle_priority_ = true;
};

}  // namespace shadowprof::plan
