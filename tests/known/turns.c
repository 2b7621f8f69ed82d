// SPDX-License-Identifier: MIT
//
// Functions of which the processor time is known: they work in turns of random length, of which
// busy() has 60 %, chase() 30 %, and divide() 10 % in the mean, until SECONDS of processor time are
// used, and the thread's own clock is read between them. Prints the seconds of each.
//
// usage: turns SECONDS
#include <time.h>

#include "known.h"

enum { kCells = 1 << 20 };
static uint32_t cells[kCells];

uint64_t busy(uint64_t x, uint64_t rounds);
uint64_t chase(uint64_t x, uint64_t rounds);
uint64_t divide(uint64_t x, uint64_t rounds);

NOT_COPIED uint64_t busy(uint64_t x, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; i++) x = (x ^ x >> 9) * 5 + i;
  return x;
}

NOT_COPIED uint64_t chase(uint64_t x, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; i++) x = cells[(x + i) % kCells];
  return x;
}

NOT_COPIED uint64_t divide(uint64_t x, uint64_t rounds) {
  for (uint64_t i = 1; i <= rounds; i++) x = (x + ~i) / (x >> 50 | 3);
  return x;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  const double end = argc > 1 ? strtod(argv[1], NULL) : 1;
  uint64_t random = 1, x = 1;
  for (uint32_t i = 0; i < kCells; i++) {
    next_random(&random);
    cells[i] = (uint32_t)(random >> 33);
  }
  uint64_t (*const work[3])(uint64_t, uint64_t) = {busy, chase, divide};
  double used[3] = {0}, now = seconds();
  // Rounds of each that take about a microsecond, by what they have taken until now.
  double pace[3] = {300, 50, 100};
  while (now < end) {
    next_random(&random);
    const unsigned percent = (random >> 33) % 100;
    const unsigned which = percent < 60 ? 0 : percent < 90 ? 1 : 2;
    const double wanted_us = 20 + (double)((random >> 42) % 400);
    x = work[which](x, (uint64_t)(wanted_us * pace[which]));
    const double before = now;
    now = seconds();
    used[which] += now - before;
    const double took_us = 1e6 * (now - before) + 1;
    pace[which] *= took_us < wanted_us ? 1.01 : 0.99;
  }
  printf("{\"busy\": %.6f, \"chase\": %.6f, \"divide\": %.6f, \"all\": %.6f, \"x\": %llu}\n",
         used[0], used[1], used[2], now, (unsigned long long)x);
  return 0;
}
