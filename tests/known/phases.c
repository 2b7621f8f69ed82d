// SPDX-License-Identifier: MIT
//
// Phases that are known: `prepare` for its rounds, then `serve` for its own, through the same code
// in both. Each round is a walk of kSteps loads, of which each needs the one before.
//
// usage: phases PREPARING SERVING
#include "known.h"

enum { kSteps = 1 << 10 };
static uint32_t next_of[kSteps];

uint64_t walk(uint32_t from);
uint64_t prepare(uint64_t rounds);
uint64_t serve(uint64_t rounds);

NOT_COPIED uint64_t walk(uint32_t from) {
  uint64_t sum = 0;
  for (uint32_t i = 0, at = from; i < kSteps; i++) sum += at = next_of[at];
  return sum;
}
NOT_COPIED uint64_t prepare(uint64_t rounds) {
  uint64_t sum = 1;
  for (uint64_t i = 0; i < rounds; i++) sum = sum * 3 + walk((uint32_t)(i % kSteps));
  return sum;
}
NOT_COPIED uint64_t serve(uint64_t rounds) {
  uint64_t sum = 2;
  for (uint64_t i = 0; i < rounds; i++) sum = sum * 5 + walk((uint32_t)(sum % kSteps));
  return sum;
}

int main(int argc, char **argv) {
  const uint64_t preparing = number_of(argc, argv, 1, 100);
  const uint64_t serving = number_of(argc, argv, 2, 100);
  for (uint32_t i = 0; i < kSteps; i++) next_of[i] = (i * 5 + 1) % kSteps;
  const uint64_t sum = prepare(preparing) + serve(serving);
  printf("{\"steps\": %d, \"prepared\": %llu, \"served\": %llu, \"sum\": %llu}\n", kSteps,
         (unsigned long long)preparing, (unsigned long long)serving, (unsigned long long)sum);
  return 0;
}
