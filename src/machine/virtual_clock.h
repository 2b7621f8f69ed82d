// SPDX-License-Identifier: MIT
//
// The clock of a program that is to find the same times in each run. It advances with what the
// program does, and with nothing else:
//
//   an instruction           1 ns
//   a look at the clock      kLook_ns more, so that a loop that waits for a moment ends
//   a sleep, or a timeout    to its end, when it is over
//
// It begins at one date. What sleeps do not take of a processor, clocks of processor time leave
// out.
#pragma once

#include <sys/time.h>

#include <cstdint>
#include <ctime>
#include <optional>

#include "machine/machine_facts.h"

namespace shadowprof::machine {

class VirtualClock {
 public:
  static constexpr uint64_t kLook_ns = 10'000;
  static constexpr uint64_t kSecond_ns = 1'000'000'000;
  static constexpr int64_t kBegin_s = 1'767'225'600;  // 2026-01-01 00:00:00 UTC
  static constexpr uint64_t kTicksPerSecond = 100;    // of times(2)

  void retire(uint64_t instructions) { work_ns_ += instructions; }
  void look() { work_ns_ += kLook_ns; }
  // Until so long after the begin; not at all when that is past.
  void sleep_until(uint64_t elapsed_ns) {
    if (elapsed_ns > now_ns()) slept_ns_ += elapsed_ns - now_ns();
  }

  // Since the begin.
  uint64_t now_ns() const { return work_ns_ + slept_ns_; }
  // Without sleeps.
  uint64_t worked_ns() const { return work_ns_; }
  // The processor's, which counts nanoseconds.
  uint64_t time_stamp() const { return kUptimeSeconds * 1'000'000'000 + now_ns(); }

  // Clocks that are not processor time. Nothing: it is none.
  std::optional<timespec> read(clockid_t clock) const;
  // Since the begin of the run until that clock's moment; 0: it is past.
  std::optional<uint64_t> elapsed_at(clockid_t clock, const timespec& moment) const;

 private:
  uint64_t work_ns_ = 0;
  uint64_t slept_ns_ = 0;
};

timespec timespec_of(uint64_t nanoseconds);
timeval timeval_of(uint64_t nanoseconds);
// At most some centuries.
uint64_t nanoseconds_of(const timespec& time);

}  // namespace shadowprof::machine
