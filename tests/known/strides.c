// SPDX-License-Identifier: MIT
//
// Loads with strides that are known: 8, 1088 and -64 bytes, and one at random. Each function goes
// through the same 16 MB in each round.
//
// usage: strides ROUNDS
#include "known.h"

enum { kWords = 1 << 21 };
static uint64_t words[kWords];

uint64_t by_8(uint64_t sum);
uint64_t by_1088(uint64_t sum);
uint64_t down_by_64(uint64_t sum);
uint64_t at_random(uint64_t sum);

NOT_COPIED uint64_t by_8(uint64_t sum) {
  for (uint64_t i = 0; i < kWords / 8; i++) sum = (sum << 1) ^ words[i];
  return sum;
}
NOT_COPIED uint64_t by_1088(uint64_t sum) {
  for (uint64_t i = 0; i < kWords; i += 136) sum = (sum << 1) ^ words[i];
  return sum;
}
NOT_COPIED uint64_t down_by_64(uint64_t sum) {
  for (uint64_t i = kWords - 8; i >= 8; i -= 8) sum = (sum << 1) ^ words[i];
  return sum;
}
NOT_COPIED uint64_t at_random(uint64_t sum) {
  for (uint64_t i = 0; i < kWords / 64; i++) sum = sum * 5 + words[(sum >> 40) % kWords] + i;
  return sum;
}

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 10);
  uint64_t sum = 1;
  for (uint64_t i = 0; i < kWords; i++) words[i] = i * 3;
  for (uint64_t i = 0; i < rounds; i++) sum = at_random(down_by_64(by_1088(by_8(sum))));
  printf("{\"strides\": {\"by_8\": 8, \"by_1088\": 1088, \"down_by_64\": -64, \"at_random\": 0}, "
         "\"sum\": %llu}\n",
         (unsigned long long)sum);
  return 0;
}
