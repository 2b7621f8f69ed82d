// SPDX-License-Identifier: MIT
//
// Functions that call themselves and one another: how often each calls which is known.
//
// usage: recursion ROUNDS
#include "known.h"

uint64_t fibonacci(uint64_t n);
uint64_t is_even(uint64_t n);
uint64_t is_odd(uint64_t n);

enum { kNumber = 12, kCallsOfFibonacci = 465, kEven = 9 };

NOT_COPIED uint64_t fibonacci(uint64_t n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

NOT_COPIED uint64_t is_even(uint64_t n) { return n == 0 ? 1 : !is_odd(n - 1) + 0; }
NOT_COPIED uint64_t is_odd(uint64_t n) { return n == 0 ? 0 : !is_even(n - 1) + 0; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 1000);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < rounds; i++) sum += fibonacci(kNumber) + is_even(kEven);
  // Nine is asked for, then eight, and so on: five times of is_even(), five of is_odd().
  printf("{\"calls\": [[\"main\", \"fibonacci\", %llu], [\"fibonacci\", \"fibonacci\", %llu], "
         "[\"main\", \"is_even\", %llu], [\"is_even\", \"is_odd\", %llu], "
         "[\"is_odd\", \"is_even\", %llu]], \"sum\": %llu}\n",
         (unsigned long long)rounds, (unsigned long long)rounds * (kCallsOfFibonacci - 1),
         (unsigned long long)rounds, (unsigned long long)rounds * 5,
         (unsigned long long)rounds * 4, (unsigned long long)sum);
  return 0;
}
