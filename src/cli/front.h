// SPDX-License-Identifier: MIT
//
// Sampling is done by a process of its own; the one that the user started only waits for it.
//
//   front    what the user sees, signals and perhaps kills
//   worker   traces the program
//
// For a few hundred microseconds of each sample the program's registers are not its own: it makes a
// system call for us. A tracer that is killed just then leaves a program that crashes. SIGKILL
// cannot be put off; but it hits the front, and the worker, told by the kernel, leaves the program
// in an orderly way and writes what it has.
#pragma once

#include <functional>

#include "profile/profile.h"

namespace shadowprof::cli {

// Ends this process as a program ended: with its status, or by the same signal (without a second
// core file).
[[noreturn]] void end_like(const profile::Exit& end);

// Runs `work` in the worker, and ends as the worker did: with the status that `work` returned. The
// front does `meanwhile` first, which asks every few milliseconds whether the worker has ended, and
// returns then; and `afterwards` when it has.
using Meanwhile = std::function<void(const std::function<bool()>& is_over)>;
[[noreturn]] void run_behind_front(const std::function<int()>& work,
                                   const Meanwhile& meanwhile = {},
                                   const std::function<void()>& afterwards = {});

}  // namespace shadowprof::cli
