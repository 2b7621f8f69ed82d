// SPDX-License-Identifier: MIT
//
// What becomes of us when we get no more memory (strict overcommit, ulimit -v, too many mappings).
// A reserve is given up the first time, so that the run can end with what it has: whoever runs asks
// memory_is_short(). After that std::bad_alloc is thrown, which only main() catches.
#pragma once

#include <cstddef>

namespace shadowprof {

// Once, in main(). From then on operator new does all that.
void prepare_for_short_memory();

bool memory_is_short();
inline constexpr const char* kMemoryIsShort = "shadowprof gets no more memory";

// For libraries that call somebody when they get no memory: says so, and ends the process. The
// attribute is part of the type that libdw wants.
__attribute__((noreturn)) void end_at_short_memory();

// Zeroed pages of our own, which munmap(2) gives back; as operator new where there are none.
void* map_pages(size_t bytes);

}  // namespace shadowprof
