// SPDX-License-Identifier: MIT
//
// Loads that caches serve in shares that are known: sets() walks 64 lines, 4096 bytes apart, which
// are one set of the first cache, and are all in the second one; near_or_far() loads from 4 KB in
// 90 % and from 256 MB in 10 %, each address after the load before it; near() only from 4 KB.
//
// usage: hits ROUNDS
#include <sys/mman.h>

#include "known.h"

enum { kLines = 64, kApart = 4096 / 8, kNear = 4096 / 8 };
static const uint64_t kFar = (256ull << 20) / 8;

uint64_t sets(uint64_t *lines, uint64_t rounds);
uint64_t near_or_far(const uint64_t *words, uint64_t *random, uint64_t rounds, uint64_t *far);
uint64_t near(const uint64_t *words, uint64_t rounds);

NOT_COPIED uint64_t sets(uint64_t *lines, uint64_t rounds) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < rounds; i++) at = lines[at];
  return at;
}

// All words are 0, so that the next address can be told to depend on this one.
NOT_COPIED uint64_t near_or_far(const uint64_t *words, uint64_t *random, uint64_t rounds,
                                uint64_t *far) {
  uint64_t zero = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    const uint64_t r = next_random(random) >> 20;
    const int is_far = (r >> 24) % 10 == 0;
    *far += is_far;
    zero = words[zero + (is_far ? (r * 8) % kFar : r % kNear)];
  }
  return zero;
}

NOT_COPIED uint64_t near(const uint64_t *words, uint64_t rounds) {
  uint64_t zero = 0;
  for (uint64_t i = 0; i < rounds; i++) zero = words[zero + i % kNear];
  return zero;
}

// One ring of all lines, in an order that no prefetcher knows (Sattolo's).
static void link_at_random(uint64_t *lines, uint64_t *random) {
  uint64_t order[kLines];
  for (uint64_t i = 0; i < kLines; i++) order[i] = i;
  for (uint64_t i = kLines - 1; i > 0; i--) {
    const uint64_t other = (next_random(random) >> 33) % i, kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  for (uint64_t i = 0; i < kLines; i++) lines[i * kApart] = order[i] * kApart;
}

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 200);
  static uint64_t lines[kLines * kApart];
  uint64_t *words =
      mmap(NULL, 8 * kFar, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED) return 1;
  for (uint64_t i = 0; i < kFar; i += 512) words[i + 1] = 1, words[i + 1] = 0;
  uint64_t random = 1, far = 0, sum = 0;
  link_at_random(lines, &random);
  for (uint64_t i = 0; i < rounds; i++) {
    sum += sets(lines, 64 * kLines);
    sum += near_or_far(words, &random, 2000, &far);
    sum += near(words, 8000);
  }
  const double share = (double)far / (2000.0 * (double)rounds);
  printf("{\"served\": {\"sets\": {\"l2\": 1}, \"near_or_far\": {\"near\": %.6f, \"far\": %.6f}, "
         "\"near\": {\"l1\": 1}}, \"sum\": %llu}\n",
         1 - share, share, (unsigned long long)sum);
  return 0;
}
