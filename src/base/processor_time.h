// SPDX-License-Identifier: MIT
//
// Seconds that somebody was on a processor: who else wants it does not matter. How long a thread
// waited for one is in /proc/PID/schedstat (kernel/proc.h), which is up to a clock tick old.
#pragma once

#include <sys/resource.h>

#include <ctime>
#include <optional>

#include "base/types.h"

namespace shadowprof {

inline double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double processor_seconds_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds_of(time);
}

// All threads of a process up to this moment. Nothing: it is no more.
inline std::optional<double> processor_seconds_of(Tid process) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(process.value, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    return std::nullopt;
  return seconds_of(used);
}

// `who` as for getrusage(2).
inline double processor_seconds_of(__rusage_who who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace shadowprof
