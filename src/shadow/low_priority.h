// SPDX-License-Identifier: MIT
//
// The priority of what computes beside the program: replicas, and interpreters of ours. It is idle,
// so that it takes from others only what they leave, but while the tracer waits for it: on a full
// machine that could take seconds, in which nobody serves the program. A process that may not leave
// idle priority (without CAP_SYS_NICE or a RLIMIT_NICE, sched(7)) never gets it, and is nice.
#pragma once

#include "base/types.h"

namespace shadowprof::shadow {

// Found out by a thread of ours the first time: before anything waits for us.
bool may_leave_idle_priority();

// For a thread of ours, or a replica.
void lower_priority(Tid tid);
// Does nothing to who is nice.
void raise_priority(Tid tid);

// As long as it lives a thread of low priority is waited for.
class Urgent {
 public:
  // `is_low` may become false meanwhile.
  Urgent(Tid tid, const bool& is_low) : tid_(tid), is_low_(is_low) {
    if (is_low_) raise_priority(tid_);
  }
  ~Urgent() {
    if (is_low_) lower_priority(tid_);
  }
  Urgent(const Urgent&) = delete;
  Urgent& operator=(const Urgent&) = delete;

 private:
  Tid tid_;
  const bool& is_low_;
};

}  // namespace shadowprof::shadow
