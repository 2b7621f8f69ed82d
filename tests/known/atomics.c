// SPDX-License-Identifier: MIT
//
// Atomic instructions: an exchange-and-add that finds an odd number in half of its executions, and
// a compare-and-exchange that finds 0 in all. Prints how often each was executed.
//
// usage: atomics ROUNDS
#include "known.h"

static uint64_t counter, lock;

uint64_t add(uint64_t *to);
uint64_t take(uint64_t *what);

NOT_COPIED uint64_t add(uint64_t *to) {
  uint64_t by = 1;
  __asm__ volatile("lock xadd %0, (%1)" : "+r"(by) : "r"(to) : "memory");
  return by & 1;
}

NOT_COPIED uint64_t take(uint64_t *what) {
  uint64_t found = 0;
  __asm__ volatile("lock cmpxchg %1, (%2)" : "+a"(found) : "r"(1ull), "r"(what) : "memory");
  return found;
}

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 100000);
  uint64_t odd = 0, taken = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    odd += add(&counter);
    taken += take(&lock) == 0;
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  }
  const unsigned long long all = rounds;
  printf("{\"calls\": [[\"main\", \"add\", %llu], [\"main\", \"take\", %llu]], "
         "\"values\": [[\"add\", \"and\", %llu, {\"1\": %llu, \"0\": %llu}]], "
         "\"loads\": {\"add\": \"atomic\", \"take\": \"atomic\"}, \"taken\": %llu}\n",
         all, all, all, (unsigned long long)odd, (unsigned long long)(rounds - odd),
         (unsigned long long)taken);
  return 0;
}
