// SPDX-License-Identifier: MIT
//
// Functions that compute with numbers in vector registers, whose results are known: 98 % of the
// calls of scale() give 2.0 and 2 % give 3.0; 90 % of those of shift() give 1.5f; the first integer
// that step() gives is 7 in 75 % and 8 in 25 %. Prints how many calls gave which.
//
// usage: numbers CALLS
#include <emmintrin.h>

#include "known.h"

double scale(double x, double y);
float shift(float x);
__m128i step(__m128i v, __m128i by);

NOT_COPIED double scale(double x, double y) { return x * y; }
NOT_COPIED float shift(float x) { return x + 1.0f; }
NOT_COPIED __m128i step(__m128i v, __m128i by) { return _mm_add_epi32(v, by); }

int main(int argc, char **argv) {
  const uint64_t calls = number_of(argc, argv, 1, 1000000);
  uint64_t twos = 0, halves = 0, sevens = 0, random = 1;
  double sum = 0;
  for (uint64_t i = 0; i < calls; i++) {
    next_random(&random);
    const uint64_t chance = (random >> 33) % 100;
    const double product = scale(1.0, chance < 98 ? 2.0 : 3.0);
    const float sum_of_two = shift(chance < 90 ? 0.5f : (float)chance);
    const __m128i next = step(_mm_set_epi32(4, 3, 2, chance < 75 ? 1 : 2), _mm_set1_epi32(6));
    const int first = _mm_cvtsi128_si32(next);
    twos += product == 2.0;
    halves += sum_of_two == 1.5f;
    sevens += first == 7;
    sum += product + sum_of_two + first;
  }
  printf("{\"calls\": %llu, \"twos\": %llu, \"halves\": %llu, \"sevens\": %llu, \"sum\": %.1f}\n",
         (unsigned long long)calls, (unsigned long long)twos, (unsigned long long)halves,
         (unsigned long long)sevens, sum);
  return 0;
}
