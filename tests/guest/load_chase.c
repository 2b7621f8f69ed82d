// SPDX-License-Identifier: MIT
//
// Follows pointers through a set of cache lines in an order that no prefetcher foresees. The size in
// bytes is the first argument; the default is small, so that it is quick where nothing is measured.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kLine = 64, kSteps = 100000 };

__attribute__((noinline)) void **chase(void **at, int steps) {
  while (steps-- > 0) at = *at;
  return at;
}

int main(int argc, char **argv) {
  const uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 16384;
  const uint64_t lines = bytes / kLine;  // a power of two
  char *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || (lines & (lines - 1)) != 0) return 1;
  // A linear congruential generator of full period visits each line once (Hull and Dobell).
  uint64_t line = 0;
  for (uint64_t i = 0; i < lines; i++) {
    const uint64_t next = (line * 1664525 + 1013904223) & (lines - 1);
    *(void **)(memory + line * kLine) = memory + next * kLine;
    line = next;
  }
  // Every line of a small set is in its cache when measuring begins.
  void **at = chase((void **)memory, lines < 10000 ? (int)lines : 0);
  at = chase(at, kSteps);
  printf("%d\n", at != NULL);
  return 0;
}
