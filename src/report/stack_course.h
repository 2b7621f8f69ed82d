// SPDX-License-Identifier: MIT
//
// When a thread was at its stacks, as far as the profile's course of time knows: in which slice in
// which function. Which of a function's stacks it was at first is not known: in the order that they
// have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "report/time_stacks.h"

namespace shadowprof::report {

struct StackMoment {
  const ThreadStack* stack = nullptr;
  uint64_t at_ns = 0;   // since sampling began
  uint64_t amount = 0;  // nanoseconds of processor time; those of each stack add up to its own
};

// `stacks`: all of one thread. In the order of time. Without a course one stack follows the other,
// by the processor time that the thread had used until then.
std::vector<StackMoment> moments_of(std::span<const ThreadStack> stacks,
                                    const profile::Profile& profile);

}  // namespace shadowprof::report
