// SPDX-License-Identifier: MIT
//
// How long a replica's first sample is, in seconds that the replica executes the program. What a
// sample costs is partly the same however long it is (the pause, and a fault for each page that the
// program will write to) and partly grows with it (the part of these faults that come meanwhile,
// which are dearer, and what a busy core costs). Few long samples see more of what the program
// does; many short ones see more of the program's phases. A typical sample is so long that the
// second part is kGrowingShare of the first, and not so long that the load leaves room for fewer
// samples than the budget.
//
// A sample is the longer the more time it stands for: what has passed since the one before it. Else
// the parts of a program in which samples are dear, and therefore rare, would be less known than
// others. What is uneven nevertheless, collect/weights/sample_weights.h evens out.
#pragma once

#include <cstdint>

#include "plan/plan_limits.h"
#include "plan/prices.h"

namespace shadowprof::plan {

// A replica that is dead, with all its samples.
struct PastLife {
  double pause_s = 0;
  double lifetime_s = 0;
  double copied_pages = 0;
  double busy_core_s = 0;  // that the program has lost beside it
  double input_log_s = 0;
  double guest_s = 0;  // that it executed in its only sample; 0: says nothing of the next ones
  double price_s(const Prices& prices) const {
    return pause_s + copied_pages * prices.page_copied_s + busy_core_s + input_log_s;
  }
};

class Lengths {
 public:
  Lengths(double max_overhead_share, double load)
      : max_overhead_share_(max_overhead_share), load_(load) {}

  void set_max_overhead(double share) { max_overhead_share_ = share; }

  // For a sample that begins now, `forks` replicas having been made before.
  double next_s(double now_s, uint64_t forks);
  void lived(const PastLife& life, const Prices& prices);
  // Pages of dead replicas have cost so much.
  void kept(double seconds) { fixed_s_ += seconds; }

 private:
  double max_overhead_share_;
  double load_;
  double length_s_ = kFirstLength_s;  // a typical one
  double stands_from_s_ = 0;          // the next sample stands for the time since then
  uint64_t seen_ = 0;
  // Sums over samples, in which those before the last change of length count half, and so on.
  double recent_ = 0;
  double fixed_s_ = 0;
  double growing_s_ = 0;
  double guest_s_ = 0;
  double lived_s_ = 0;
};

}  // namespace shadowprof::plan
