// SPDX-License-Identifier: MIT
//
// Where our memory lies in somebody else's address space, and how it gets there.
#pragma once

#include <vector>

#include "base/result.h"
#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"

namespace shadowprof::cache {

// Not a multiple of anything that a program would ask for by address.
inline constexpr uint64_t kOddOffset = 0x35000;

// Nothing is mapped there.
bool is_free(const std::vector<kernel::Mapping>& mappings, GuestRange range);

// A place for the code cache within 2 GB of the main program's code and data, not where its heap
// will grow, and beside the round addresses where programs map memory themselves. 0: there is none.
uint64_t cache_address(const std::vector<kernel::Mapping>& mappings, Tid process, size_t bytes);

// A place for thread slots, which need not be near the program: beside a cache that has been placed
// at `cache`, or far from it where that lies in the first 4 GB, of which programs may want the
// rest. `before` is how many bytes of slots there are already.
uint64_t slots_address(uint64_t cache, size_t bytes, size_t before);

// Maps our memfd in the tracee: at `wanted` when that is free and not 0, else anywhere. It is not
// part of core files, and not inherited by the tracee's children.
Result<GuestAddr> map_memfd(ptrace::RemoteSyscalls& remote, int memfd, size_t bytes, int protection,
                            uint64_t wanted);

}  // namespace shadowprof::cache
