// SPDX-License-Identifier: MIT
//
// What a program loses because something of ours computes at the same time, on another processor.
// Two pieces of work are timed, and what they are slowed down by is taken for what the program is:
//
//   busy core     Another core computes. Cores share caches and power. Work in a core's own caches
//                 is timed with a thread of ours on another core and without one.
//   shared core   The processors of a virtual machine may be threads of one core of the host, for
//                 seconds at a time and unknown to the machine; each of the two programs on them
//                 then takes up to twice as long. Work that never waits notices that; but more
//                 often it is a stranger who has the other thread of the core, and the program
//                 loses nothing by what the replica does. What tells one from the other is the
//                 program standing still: work is as slow beside a stranger then, and fast if it
//                 was the program that slowed it down.
//
//   program runs          work takes no longer than it did while the program stood still: apart
//   ... else              the program stands still for some such work: apart, or shared
//   ... else, and the program may not be held     as was found the last time
//
// What others on the machine do only ever adds to the time that a piece of work takes, so the least
// of several times is the one to believe; and they may have the machine for as long as a second.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "base/types.h"

namespace shadowprof::probe {

struct BusyCore {
  // By what share a computation slows down on this host while another core computes: 0.1 is a
  // tenth. 0 where this process may use one core only: it is not a question of neighbours then.
  double share = 0;
  double alone_s = 0;  // that a piece of work takes if none does; 0: not known
};

// Three milliseconds; others may have had the machine meanwhile. Nothing: this process may use one
// core only, or had no second one in that time.
std::optional<BusyCore> measure_busy_core();
// The same share again, beside a program that runs: it loses what we lose, and does not stop for
// it. Takes this thread a millisecond or two. Nothing: it did not run, or there is no other core.
std::optional<double> busy_core_share_beside(Tid program, double alone_s);

// Whether a replica's core is the program's, too.
class SharedCore {
 public:
  // The most that slow_down_share() says: what programs lose is less than what work loses that
  // never waits.
  static constexpr double kMostShare = 0.3;
  // How long the program stood still while `work` was done.
  using Hold = std::function<Result<double>(const std::function<void()>& work)>;

  // By what share the program takes longer because a replica works, as far as it was looked at; 0:
  // not.
  double slow_down_share() const { return slow_down_share_; }

  // Where `replica` ran last. Takes this thread less than a tenth of a millisecond. The answer is
  // how long the program stood still, a tenth or two of a millisecond, in seconds: not at all
  // without `hold`.
  double look(Tid replica, Tid program, double now_s, const Hold& hold);

  // What look() learns. There is nothing to find out before:
  double next_look_s() const { return next_look_s_; }
  // Work took so many seconds beside the program. False: whether it is the program's can only be
  // told while that stands still; until then what was found last holds.
  bool ran(double work_s, double now_s);
  // It took so many while the program stood still, and so many before or after that, whichever is
  // less.
  void stood_still(double still_s, double beside_s, double now_s);
  // The program does not run, or is where the replica is: nothing is shared.
  void is_apart(double now_s);

 private:
  double still_s_ = 0;  // that work takes here if the program stands still; 0: not known
  double slow_down_share_ = 0;
  double next_look_s_ = 0;
};

}  // namespace shadowprof::probe
