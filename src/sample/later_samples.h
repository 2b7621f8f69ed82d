// SPDX-License-Identifier: MIT
//
// How many samples one replica gives. When one is over the replica may go on natively and give
// another of what the program does a little later: that costs no fork, only what the program copies
// because the replica still has its pages. Most programs write to the same pages again and again,
// so that becomes less the longer the replica lives, while a fork costs as much every time.
//
// So a replica goes on as long as what it has cost fits into what the budget has given up to now,
// or what it gives in a second, or is no more than its fork. What it executes is what the program
// executed since the fork, or will. It may last, as long as it keeps up. It has a core of its own at
// best, on which it would execute as much of the program as that does, were it not for the samples
// and for all that we do about them there. So samples are as far apart as it takes for the replica
// to lose no more than a fifth of its time: what it has not executed when the program ends nobody
// has seen. They are no closer together where the program's code is cheap to record for a while, for
// there would be more of them than of the rest. And they are half a millisecond long: of a large
// program longer ones would say as much (most of what they cost is code that is new, and of that
// four times as long a sample meets 1.6 times as much), of one that does the same for long shorter
// ones. When the replica is far behind nevertheless, and another fork costs no more than half of what
// is left of the budget, that takes its place, at once: it may be dearer soon.
//
// Where other forks are cheap, as the program writes to little memory, it takes its time: it rests
// between its samples, executes natively for as long as it records (3 ms at least), and falls
// behind until half of the budget has paid for a fork. What the program loses beside a replica that
// works cannot all be seen, and is taken for 3 %: so that works for a third of the time at 1 %, and
// does not rest where 3 % are allowed. Where they write to megabytes it is more, the more of the
// program the replica executes, as a cache that they share holds these twice: that is taken for 2 %
// for each.
//
// A replica may last where the load allows one at all times, a busy core costs its neighbours less
// than the budget, and the program is one thread of one process. Else it lives for a share of the
// time until the next fork, and records most of it: of several threads or processes it follows only
// one.
//
// Where it is only the neighbourhood that forbids to last, the first replica rests until that was
// looked at again: a later fork of a program that has grown meanwhile may be too dear.
//
// One that lasts rests, too, when its core turns out to be the program's (sample/shared_core.h):
// until it is not, or what the program has lost since the replica went on fits into the budget.
//
// Where code is new recording takes long, up to forty times as long as the program itself. Replicas
// that do not follow their program take shorter samples then, and execute more of it between two of
// them, for they are to get about nevertheless. That goes by the last dozen samples, not by the last
// one: of code that is slow to record there would be fewer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include "sample/governor.h"
#include "shadow/execution.h"

namespace shadowprof::sample {

// When one of its samples is over, or what it executed natively was cut short. Seconds, mostly.
struct ReplicaState {
  double recorded = 0;  // its samples took so long
  double age = 0;
  double cost = 0;           // to the program, up to now
  double unspent = 0;        // of the budget up to now, without that
  double executed = 0;       // of the program, by the replica
  double used = 0;           // by the program since the fork
  double whole_run = 0;      // by the program, since profiling began
  double elapsed = 0;        // since profiling began
  double next_costs = 0;     // at most, if there is another fork
  double next_may_cost = 0;  // as it is expected
  double next_copies = 0;    // bytes that the program copies then, as is expected
  bool may_last = false;
  double rest = 0;       // seconds, after which it may be allowed to; 0: it will not
  double slow_down = 0;  // of the program, by what the replica does; a share
  double behind() const { return std::max(0.0, used - executed); }
};

class LaterSamples {
 public:
  explicit LaterSamples(const GovernorOptions& options);

  // Whether replicas of one thread of one process may last: `neighbour_cost` is what one costs the
  // program in a second.
  bool may_last(double neighbour_cost) const;
  // A replica whose fork stopped the program for `pause` seconds.
  void begin(double pause);
  // One that lasts would, at such a ReplicaState::slow_down.
  bool would_rest(double slow_down) const;
  // It is to end, with its present sample.
  bool is_too_dear(double cost, double unspent) const;
  // Nothing: it has given enough.
  std::optional<shadow::NextSample> next(const ReplicaState& replica);
  // The replica that has given enough makes room for another one, at once: a fork may soon be too dear.
  bool is_replaced() const { return is_replaced_; }
  // Seconds that the program has lost since the last call because their core was one.
  double take_loss() { return std::exchange(loss_, 0); }

 private:
  void note_work(const ReplicaState& replica);
  void note_recording(const ReplicaState& replica);
  bool has_lived(const ReplicaState& replica);
  bool takes_its_time(const ReplicaState& replica) const;
  double time_paying_for(double cost, const ReplicaState& replica) const;
  double between(const ReplicaState& replica) const;
  double length(const ReplicaState& replica) const;
  double rest_at_shared_core(const ReplicaState& replica);
  double rest_between(const ReplicaState& replica) const;

  double max_overhead_;
  double load_;
  std::mt19937_64 random_;
  // Of the present replica.
  double pause_ = 0;
  double last_age_ = 0;
  double recorded_before_ = 0;
  bool works_ = true;
  double worked_ = 0;    // seconds, up to when it stopped last
  double executed_ = 0;  // of the program, then
  double executed_before_ = 0;
  double stopped_at_ = 0;     // its age then
  bool is_reckoned_ = false;  // what that has cost on a core that is the program's
  double paid_for_ = 0;       // at this age
  bool is_replaced_ = false;
  // Of all.
  uint64_t samples_ = 0;
  double recording_ = 0;  // seconds that one takes
  double lost_ = 0;       // and that a replica works without executing its program, from one to the next
  double loss_ = 0;
};

}  // namespace shadowprof::sample
