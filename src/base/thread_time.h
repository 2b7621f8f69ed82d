// SPDX-License-Identifier: MIT
//
// Seconds that this thread was on a processor: who else wants it does not matter.
#pragma once

#include <ctime>

namespace shadowprof {

inline double seconds_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace shadowprof
