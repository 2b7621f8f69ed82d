// SPDX-License-Identifier: MIT
//
// Which core a replica runs on: not the program's, where there is another. A scheduler that prefers
// the core where a thread ran before leaves one of idle priority behind a busy one for up to
// hundreds of milliseconds, although another core is free, and all the while the program copies
// pages.
//
// The same goes for our own threads as long as the replica lives. The tracer is woken at each of
// its stops, and collectors by each of its buffers; the scheduler would have them on the program's
// core as readily as on another one, and the program wait for them.
//
//   start()  not on the core where the program's thread is
//   look()   from time to time: the program may be on another one, or the replica have hardly run
//   rest()   the replica does not run for a while
//
// Where several replicas live, what was said last of the living ones holds for our threads; they
// may be everywhere when none is left.
//
// Cores are those that we ourselves might use at first. The replica's affinity is its own; what the
// program is told of its affinity is the program's (system_calls.h).
#pragma once

#include <sched.h>

#include "base/types.h"
#include "shadow/engine_clock.h"

namespace shadowprof::shadow {

// All of them are the tracer's thread's.
class Placement {
 public:
  Placement() = default;
  // As rest().
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // `beside`: the program's thread.
  void start(Tid replica, Tid beside);
  void look();
  // The replica is stopped: until the next look it keeps our threads away from no core.
  void rest();
  // Seconds until then; infinite where there is nothing to choose.
  double next_look() const { return next_.seconds_until(); }

 private:
  void avoid(int core, int another);
  void keep_own_threads_from(int core);

  Tid replica_;
  Tid beside_;
  int avoided_ = -1;  // the program's core
  double used_before_ = 0;
  Deadline next_;
};

}  // namespace shadowprof::shadow
