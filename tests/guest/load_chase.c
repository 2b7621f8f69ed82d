// SPDX-License-Identifier: MIT
//
// Follows pointers through a set of cache lines in an order that no prefetcher foresees. The size
// in bytes is the first argument; the default is small, so that it is quick where nothing is
// measured. The second is how many loads; with a third one it prints what one took, in cycles of
// the time stamp counter. "time": in half of the pieces that the chase has, as others may have had
// the processor in some. "slow": each load by itself, as slowly as who records each, and with as
// much written in between; what the caches have lost meanwhile, to whoever shares them, is in it.
// Behind it stands which part of the loads took more cycles than the fourth argument.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

enum { kLine = 64, kLoads = 100000, kPiece = 1000 };
enum { kPace = 300, kInterrupted = 5000, kWritten = 1 << 20, kWordsOfLoad = 10 };

__attribute__((noinline)) void **chase(void **at, uint64_t loads) {
  while (loads-- > 0) at = *at;
  return at;
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void time_pieces(void **at, uint64_t pieces) {
  uint64_t *times = calloc(pieces, sizeof *times);
  if (!times) exit(1);
  for (uint64_t i = 0; i < pieces; i++) {
    const uint64_t start = __rdtsc();
    at = chase(at, kPiece);
    times[i] = __rdtsc() - start + (at == NULL);
  }
  qsort(times, pieces, sizeof *times, by_size);
  printf("%.2f\n", (double)times[pieces / 2] / kPiece);
}

static uint64_t stamp(void) {
  _mm_lfence();
  const uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
}

static void time_slowly(void** at, uint64_t loads, int64_t far) {
  static volatile uint32_t written[kWritten + kWordsOfLoad];
  uint64_t sum = 0, timed = 0, farther = 0;
  for (uint64_t i = 0, next = 0; i < loads; i++) {
    const uint64_t empty = stamp();
    const uint64_t before = stamp();
    at = *at;
    __asm__ volatile("" ::"r"(at));
    const uint64_t after = stamp();
    if (after - empty < kInterrupted) {
      const int64_t cycles = (int64_t)((after - before) - (before - empty));
      sum += (uint64_t)cycles;
      farther += cycles > far;
      timed++;
    }
    for (int w = 0; w < kWordsOfLoad; w++) written[next + w] = (uint32_t)after;
    next = (next + kWordsOfLoad) % kWritten;
    while (__rdtsc() - empty < kPace) continue;
  }
  const double all = (double)(timed + (at == NULL));
  printf("%.2f %.4f\n", (double)(int64_t)sum / all, (double)farther / all);
  (void)written[0];
}

int main(int argc, char **argv) {
  const uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 16384;
  const uint64_t loads = argc > 2 ? strtoull(argv[2], NULL, 10) : kLoads;
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
  // Every line of a set that fits into a cache is there when measuring begins.
  void **at = chase((void **)memory, lines <= 262144 ? lines : 0);
  if (argc > 3) {
    if (strcmp(argv[3], "slow") == 0)
      time_slowly(at, loads, argc > 4 ? atoll(argv[4]) : 0);
    else
      time_pieces(at, loads / kPiece + 1);
    return 0;
  }
  at = chase(at, loads);
  printf("%d\n", at != NULL);
  return 0;
}
