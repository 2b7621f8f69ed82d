// SPDX-License-Identifier: MIT
//
// Where our memory lies in somebody else's address space, and how it gets there.
#pragma once

#include <vector>

#include "base/result.h"
#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::inject {

// Not a multiple of anything that a program would ask for by address.
inline constexpr uint64_t kOddOffset = 0x35000;

// A place for the code cache within 2 GB of the main program's code and data, and not where its
// heap will grow. 0: there is none.
uint64_t cache_address(const std::vector<kernel::Mapping>& mappings, Tid process, size_t bytes);

// Maps our memfd in the tracee: at `wanted` when that is free and not 0, else anywhere. It is not
// part of core files, and not inherited by the tracee's children.
Result<GuestAddr> map_memfd(ptrace::RemoteSyscalls& remote, Tid process, int memfd, size_t bytes,
                            int protection, uint64_t wanted);

}  // namespace shadowprof::inject
