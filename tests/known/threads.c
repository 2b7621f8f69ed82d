// SPDX-License-Identifier: MIT
//
// Two threads that do the same with other functions: the first calls three times as often as the
// second one. They call themselves "often" and "seldom".
//
// usage: threads ROUNDS
#define _GNU_SOURCE
#include <pthread.h>

#include "known.h"

uint64_t often(uint64_t x);
uint64_t seldom(uint64_t x);

NOT_COPIED uint64_t often(uint64_t x) { return (x ^ x >> 5) * 3; }
NOT_COPIED uint64_t seldom(uint64_t x) { return (x ^ x >> 7) * 5; }

static uint64_t rounds;

static NOT_COPIED void *work_often(void *sum) {
  pthread_setname_np(pthread_self(), "often");
  for (uint64_t i = 0; i < 3 * rounds; i++) *(uint64_t *)sum += often(i);
  return NULL;
}
static NOT_COPIED void *work_seldom(void *sum) {
  pthread_setname_np(pthread_self(), "seldom");
  for (uint64_t i = 0; i < rounds; i++) *(uint64_t *)sum += seldom(i);
  return NULL;
}

int main(int argc, char **argv) {
  rounds = number_of(argc, argv, 1, 100000);
  uint64_t sums[2] = {0, 0};
  pthread_t threads[2];
  if (pthread_create(&threads[0], NULL, work_often, &sums[0]) ||
      pthread_create(&threads[1], NULL, work_seldom, &sums[1]))
    return 1;
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  printf("{\"calls\": [[\"work_often\", \"often\", %llu], [\"work_seldom\", \"seldom\", %llu]], "
         "\"sum\": %llu}\n",
         (unsigned long long)(3 * rounds), (unsigned long long)rounds,
         (unsigned long long)(sums[0] + sums[1]));
  return 0;
}
