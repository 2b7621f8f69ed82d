// SPDX-License-Identifier: MIT
//
// Whether a replica's core is the program's, too. The processors of a virtual machine may be threads
// of one core of the host, for seconds at a time and unknown to the machine; each of the two programs on
// them then takes up to twice as long. More often it is a stranger who has the other thread of the core, and the
// program loses nothing by what the replica does. What tells one from the other is the program standing still: work
// that never waits is as slow beside a stranger then, and fast if it was the program that slowed it down.
//
//   program runs          work takes no longer than it did while the program stood still: apart
//   ... else              the program stands still for some such work: apart, or shared
//   ... else, and the program may not be held     as was found the last time
//
// Such a stop takes a tenth or two of a millisecond; whoever asks says whether the budget bears one now.
#pragma once

#include "base/types.h"

namespace shadowprof::sample {

class SampledProcess;

class SharedCore {
 public:
  // The most that slow_down() says: what programs lose is less than what work loses that never waits.
  static constexpr double kMost = 0.3;

  // By what share the program takes longer because a replica works, as far as it was looked at; 0: not.
  double slow_down() const { return slow_down_; }

  // There is nothing to find out before.
  double next_look() const { return next_look_; }
  // Work took so many seconds beside the program. False: whether it is the program's can only be told
  // while that stands still; until then what was found last holds.
  bool ran(double seconds, double now);
  // It took so many while the program stood still, and so many before or after that, whichever is less.
  void stood_still(double still, double beside, double now);
  // The program does not run, or is where the replica is: nothing is shared.
  void is_apart(double now);

 private:
  double still_ = 0;  // seconds that work takes here if the program stands still; 0: not known
  double slow_down_ = 0;
  double next_look_ = 0;
};

// Where `replica` ran last. Takes this thread less than a tenth of a millisecond; the answer is how long the program
// stood still, in seconds: not at all if it `may_hold` it not.
double look_at_core(SharedCore& core, Tid replica, SampledProcess& program, double now, bool may_hold);

}  // namespace shadowprof::sample
