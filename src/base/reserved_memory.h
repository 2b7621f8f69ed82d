// SPDX-License-Identifier: MIT
//
// Zeroed memory that is reserved at its full size and used as it is written to. Where what is
// reserved counts as used (vm.overcommit_memory=2, where others would not get it; ulimit -d), it is
// a file in memory, of which only pages that are written to count.
#pragma once

#include <cstddef>

namespace shadowprof {

// vm.overcommit_memory was 2 when this was first asked: the kernel promises no more memory than it
// has.
bool overcommit_is_forbidden();
// Null: there is not so much address space.
void* reserve_memory(size_t bytes);
// Says so, and ends this process.
void* reserve_memory_or_end(size_t bytes);
// Zeros again, and no longer in use.
void give_back_memory(void* memory, size_t bytes);

}  // namespace shadowprof
