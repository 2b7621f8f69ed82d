// SPDX-License-Identifier: MIT
//
// Paths, indirect calls, correlated branches and values of which the shares are known. In 70 % of
// the rounds step() takes the first of three ways, in 20 % the second, in 10 % the third; apply()
// calls one of three functions in 60, 30 and 10 %; twice() asks the same twice, so of four paths
// there are two; scaled() has the factor 4 in 95 % and 9 in 5 %. With PHASES more than 1 the run is
// cut into as many of equal length, and in each second one step() takes its third way in 70 % and
// its first in 10 %, and the factor is 9 in 95 %. Prints how many rounds did what.
//
// usage: mixed ROUNDS PHASES
#include "known.h"

uint64_t step(uint64_t x, unsigned percent, unsigned first, unsigned second);
uint64_t apply(uint64_t x, unsigned percent);
uint64_t twice(uint64_t x, unsigned bit);
uint64_t scaled(uint64_t x, uint64_t by);

static uint64_t ways[3], called[3], bits[2];

NOT_COPIED uint64_t step(uint64_t x, unsigned percent, unsigned first, unsigned second) {
  if (percent < first) {
    ways[0]++;
    return x * 5 + 1;
  }
  if (percent < second) {
    ways[1]++;
    return (x ^ x >> 7) * 3;
  }
  ways[2]++;
  return x - (x << 4) + 7;
}

static uint64_t plus(uint64_t x) { called[0]++; return x + 11; }
static uint64_t shifted(uint64_t x) { called[1]++; return x ^ x << 5; }
static uint64_t inverse(uint64_t x) { called[2]++; return ~x * 3; }
static uint64_t (*volatile const functions[3])(uint64_t) = {plus, shifted, inverse};

NOT_COPIED uint64_t apply(uint64_t x, unsigned percent) {
  return functions[percent < 60 ? 0 : percent < 90 ? 1 : 2](x) + 1;
}

NOT_COPIED uint64_t twice(uint64_t x, unsigned bit) {
  if (bit) bits[0]++, x += 3;
  __asm__ volatile("" : "+r"(bit));
  if (bit) bits[1]++, x ^= 9;
  return x;
}

NOT_COPIED uint64_t scaled(uint64_t x, uint64_t by) { return x * by; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 1000000);
  const uint64_t phases = number_of(argc, argv, 2, 1);
  uint64_t random = 1, sum = 0, fours = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    const unsigned other = i * phases / rounds % 2;
    next_random(&random);
    const unsigned a = (random >> 33) % 100, b = (random >> 40) % 100, c = (random >> 47) % 100;
    const uint64_t by = (c < 95) == !other ? 4 : 9;
    fours += by == 4;
    sum = step(sum + i, a, other ? 10 : 70, other ? 30 : 90);
    sum += apply(sum, b);
    sum += twice(sum, random >> 63);
    sum += scaled(i, by);
  }
  printf("{\"rounds\": %llu, \"ways\": [%llu, %llu, %llu], \"called\": [%llu, %llu, %llu], ",
         (unsigned long long)rounds, (unsigned long long)ways[0], (unsigned long long)ways[1],
         (unsigned long long)ways[2], (unsigned long long)called[0], (unsigned long long)called[1],
         (unsigned long long)called[2]);
  printf("\"bits\": [%llu, %llu], \"fours\": %llu, \"sum\": %llu}\n", (unsigned long long)bits[0],
         (unsigned long long)bits[1], (unsigned long long)fours, (unsigned long long)sum);
  return 0;
}
