// SPDX-License-Identifier: MIT
//
// Which core a replica runs on: not the program's, where there is another. A scheduler that prefers
// the core where a thread ran before leaves one of idle priority behind a busy one for up to
// hundreds of milliseconds, although another core is free, and all the while the program copies
// pages.
//
//   start()  not on the core where the program's thread is
//   look()   from time to time: on another one than at present, if it has hardly run there
//
// Cores are those that we ourselves may use. The replica's affinity is its own; what the program is
// told of its affinity is the program's (system_calls.h).
#pragma once

#include <sched.h>

#include "base/types.h"
#include "shadow/engine_clock.h"

namespace shadowprof::shadow {

class Placement {
 public:
  // `beside`: the program's thread.
  void start(Tid replica, Tid beside);
  void look();
  // Seconds until then; infinite where there is nothing to choose.
  double next_look() const { return next_.seconds_until(); }

 private:
  void avoid(int core) const;

  Tid replica_;
  cpu_set_t allowed_{};
  double used_before_ = 0;
  Deadline next_;
};

}  // namespace shadowprof::shadow
