// SPDX-License-Identifier: MIT
//
// Processor time by thread and by where the code was written: what stacks.h is of instructions.
//
// A profile has the time of each thread at each place, and calling contexts of the whole program.
// So the time of a thread in a function is exact, and is divided among the function's contexts as
// its instructions are. A context has less, or none, the less likely it is the thread's: if one of
// its callers took time in threads of other names only, and so much that this thread would have
// some of it too. Where no context is left, the callers are unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/stacks.h"

namespace shadowprof::report {

struct ThreadStack {
  uint32_t thread = 0;  // index into profile.threads
  std::optional<profile::CodeRef> at;  // as of a Stack
  std::vector<Caller> callers;     // outermost first; none without contexts
  std::vector<StackFrame> frames;  // outermost first, at least one
  bool kernel = false;             // the kernel worked for this code
  uint64_t amount = 0;             // nanoseconds; not 0
};

// For formats whose stacks are those of threads: the processor time of each, or where that was not
// measured, the instructions as those of one thread.
struct StacksOfThreads {
  std::vector<ThreadStack> stacks;  // by thread; what has the same callers stands together
  // Each has a process, and a tid of its own: those of several runs, which have none, are numbered.
  profile::ThreadTable threads;
  bool is_time = true;  // else amounts are instructions
};

inline constexpr const char* kKernelFrame = "[kernel]";

// By thread, and within a thread by function. They add up to the rows of the table of time: time at
// unknown places is in none. Empty where time was not measured.
std::vector<ThreadStack> time_stacks(const profile::Profile& profile,
                                     const symbols::ModuleSet& modules);

StacksOfThreads stacks_of_threads(const profile::Profile& profile,
                                  const symbols::ModuleSet& modules);

}  // namespace shadowprof::report
