// SPDX-License-Identifier: MIT
//
// The C library's memcpy() with sizes that are known: 64 bytes in 80 % and 1,000 in 20 %, and
// memset() with 256 always. Prints how often with which.
//
// usage: sizes ROUNDS
#include <string.h>

#include "known.h"

static char from[1000], to[1000];
static void *(*const volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*const volatile fill)(void *, int, size_t) = memset;

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 1000000);
  uint64_t random = 1, small = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    const size_t size = (next_random(&random) >> 33) % 100 < 80 ? 64 : 1000;
    small += size == 64;
    copy(to, from, size);
    fill(from, (int)i, 256);
  }
  printf("{\"sizes\": [[\"memcpy|memmove\", \"rdx\", %llu, {\"64\": %llu, \"1000\": %llu}], "
         "[\"memset\", \"rdx\", %llu, {\"256\": %llu}]], \"to\": %d}\n",
         (unsigned long long)rounds, (unsigned long long)small,
         (unsigned long long)(rounds - small), (unsigned long long)rounds,
         (unsigned long long)rounds, to[5]);
  return 0;
}
