// SPDX-License-Identifier: MIT
#pragma once

#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::ptrace {

// A descriptor of ours for what a thread has open under that number (pidfd_getfd(2), since Linux
// 5.6), which needs only the right to trace it. What is open does not end before ours does. Of a
// thread that does not share its process's descriptors only Linux 6.9 has it.
Result<UniqueFd> borrow_fd(Tid thread, int number);

}  // namespace shadowprof::ptrace
