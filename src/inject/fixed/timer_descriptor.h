// SPDX-License-Identifier: MIT
//
// A timerfd whose timer is a virtual one. The kernel's timer is set to a moment that never comes,
// so who reads it, or waits for it, waits; and that moment is its mark, by which it is known under
// whatever number, in whichever process it is open.
#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::inject {

class TimerDescriptor {
 public:
  static constexpr int kMostMarks = 20'000;

  // What the process has open under that number. Nothing: it is no timerfd, or the kernel (before
  // Linux 5.6) does not let us have it.
  static std::optional<TimerDescriptor> of(Tid process, int number);
  // Under that number, or any other one of the process.
  static std::optional<TimerDescriptor> with_mark(Tid process, int number, int mark);

  clockid_t clock() const { return clock_; }
  // 0: it has none, as its kernel's timer is disarmed.
  int mark() const { return mark_; }
  // Below kMostMarks; 0 disarms it. What it has counted up to now is forgotten, as by
  // timerfd_settime(2). False: the kernel refuses it.
  bool set_mark(int mark);
  // It has expired so many times more; who waits for it has been woken then.
  void expire(uint64_t times);
  // For good: it is the kernel's from now on.
  void arm_really(uint64_t left_ns, uint64_t interval_ns);

 private:
  UniqueFd fd_;
  clockid_t clock_ = 0;
  int mark_ = 0;
  uint64_t ticks_ = 0;
};

}  // namespace shadowprof::inject
