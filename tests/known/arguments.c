// SPDX-License-Identifier: MIT
//
// A function whose arguments are known: `first` calls have y = 5, of the others 98 % have y = 2 and
// 2 % have y = 3. x is another one in each call. Prints how many calls have which.
//
// usage: arguments CALLS FIRST
#include "known.h"

uint64_t combine(uint64_t x, uint64_t y);

NOT_COPIED uint64_t combine(uint64_t x, uint64_t y) {
  uint64_t result = x;
  for (uint64_t i = 0; i < y; i++) result = result * x + i;
  return result;
}

int main(int argc, char **argv) {
  const uint64_t calls = number_of(argc, argv, 1, 1000000);
  const uint64_t first = number_of(argc, argv, 2, 0);
  uint64_t of[6] = {0}, sum = 0, random = 1;
  for (uint64_t i = 0; i < calls; i++) {
    next_random(&random);
    const uint64_t y = i < first ? 5 : (random >> 33) % 100 < 98 ? 2 : 3;
    of[y]++;
    sum += combine(i, y);
  }
  printf("{\"calls\": %llu, \"2\": %llu, \"3\": %llu, \"5\": %llu, \"sum\": %llu}\n",
         (unsigned long long)calls, (unsigned long long)of[2], (unsigned long long)of[3],
         (unsigned long long)of[5], (unsigned long long)sum);
  return 0;
}
