// SPDX-License-Identifier: MIT
//
// What a clock of processor time tells, in the order in which it happened.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/types.h"
#include "kernel/proc.h"

namespace shadowprof::clock {

// A thread has used another `ns` of processor time, and was here when it had.
struct Tick {
  Tid process;
  Tid thread;
  GuestAddr user;          // its program counter in user mode; null: not known
  bool in_kernel = false;  // the kernel was at work for it
  uint64_t ns = 0;
};

// Executable memory came to a process.
struct Mapped {
  Tid process;
  kernel::Mapping mapping;
};

struct Named {
  Tid process;
  Tid thread;
  std::string name;
  bool by_exec = false;  // all that was mapped before is gone
};

struct ClockEvent {
  uint64_t at_ns = 0;  // CLOCK_MONOTONIC
  std::variant<Tick, Mapped, Named> what;
};

}  // namespace shadowprof::clock
