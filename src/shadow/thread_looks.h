// SPDX-License-Identifier: MIT
//
// What the kernel says of a thread of the program that runs on meanwhile.
#pragma once

#include <chrono>
#include <string_view>

#include "kernel/proc.h"

namespace shadowprof::shadow {

// State of threads that wait for nothing but a processor.
inline constexpr std::string_view kRunning = "R";
// When most calls that an interrupt cuts short are over.
inline constexpr std::chrono::microseconds kSoon{200};
// Who has stopped by then was on a processor when it was asked: no schedule is that quick.
inline constexpr std::chrono::microseconds kAtOnce{15};

// `states`: some of those of proc(5).
inline bool is_in_state(Tid process, Tid thread, std::string_view states) {
  const auto stat = kernel::read_thread_stat(process, thread);
  return stat && states.find(stat->state) != states.npos;
}

}  // namespace shadowprof::shadow
