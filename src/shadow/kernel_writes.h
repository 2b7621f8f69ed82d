// SPDX-License-Identifier: MIT
//
// Where a system call wrote into its caller's memory.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/types.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::shadow {

using SyscallArguments = std::array<uint64_t, 6>;

// For a call that has returned `result`, or is to return it: the ranges in the order in which they
// are to be written, some of them empty. Lengths and vectors are read in `memory`; so before the
// call has returned a range may be longer than what will be written. Nothing: a call of which
// nothing is kept (kernel/table.h), or arguments that cannot be read.
std::optional<std::vector<GuestRange>> kernel_writes(long nr, const SyscallArguments& args,
                                                     int64_t result, ptrace::RemoteMemory& memory);

}  // namespace shadowprof::shadow
