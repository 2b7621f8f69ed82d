// SPDX-License-Identifier: MIT
//
// What the known programs have in common.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// The compiler makes no copies of such a function for the arguments that it is called with.
#ifdef __clang__
#define NOT_COPIED __attribute__((noinline))
#else
#define NOT_COPIED __attribute__((noinline, noipa))
#endif

static inline uint64_t number_of(int argc, char **argv, int which, uint64_t otherwise) {
  return argc > which ? strtoull(argv[which], NULL, 10) : otherwise;
}

// The next of a series of numbers; its upper half can be taken for random.
static inline uint64_t next_random(uint64_t *random) {
  return *random = *random * 6364136223846793005u + 1442695040888963407u;
}
