// SPDX-License-Identifier: MIT
//
// For how long a system call of the program sleeps at most. For the calls that a signal ends though
// it has no handler (interruption.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/types.h"
#include "machine/registers.h"

namespace shadowprof::ptrace {

struct SleepTimeout {
  // Nothing: for ever, or until a moment that restarts do not move.
  std::optional<std::chrono::nanoseconds> length;
  int64_t result = 0;  // of the call when it is over
};

// For a thread with these registers at a stop in that call. Nothing: not known.
std::optional<SleepTimeout> timeout_of(Tid thread, const machine::Registers& registers);

}  // namespace shadowprof::ptrace
