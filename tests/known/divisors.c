// SPDX-License-Identifier: MIT
//
// A division by 8 in 60 % of the calls, by 10 in 30 % and by 7 in 10 %, in a register and in
// memory, and one by 1 in all calls. Prints how often by which.
//
// usage: divisors CALLS
#include "known.h"

uint64_t divide(uint64_t x, uint64_t by);
uint64_t by_one(uint64_t x, uint64_t by);
uint64_t by_memory(uint64_t x, const uint64_t *by);

NOT_COPIED uint64_t divide(uint64_t x, uint64_t by) { return x / by; }
NOT_COPIED uint64_t by_one(uint64_t x, uint64_t by) { return x / by + 1; }
NOT_COPIED uint64_t by_memory(uint64_t x, const uint64_t *by) { return x / *by + 2; }

int main(int argc, char **argv) {
  const uint64_t calls = number_of(argc, argv, 1, 1000000);
  uint64_t random = 1, sum = 0, eights = 0, tens = 0;
  for (uint64_t i = 0; i < calls; i++) {
    const unsigned percent = (next_random(&random) >> 33) % 100;
    const uint64_t by = percent < 60 ? 8 : percent < 90 ? 10 : 7;
    eights += by == 8;
    tens += by == 10;
    sum += divide(random >> 32, by) + by_one(i, 1) + by_memory(i, &by);
  }
  printf("{\"calls\": [[\"main\", \"divide\", %llu], [\"main\", \"by_one\", %llu], "
         "[\"main\", \"by_memory\", %llu]], "
         "\"arguments\": [[\"divide\", \"rsi\", %llu, {\"8\": %llu, \"10\": %llu, \"7\": %llu}], "
         "[\"by_one\", \"rsi\", %llu, {\"1\": %llu}]], \"sum\": %llu}\n",
         (unsigned long long)calls, (unsigned long long)calls, (unsigned long long)calls,
         (unsigned long long)calls, (unsigned long long)eights, (unsigned long long)tens,
         (unsigned long long)(calls - eights - tens), (unsigned long long)calls,
         (unsigned long long)calls, (unsigned long long)sum);
  return 0;
}
