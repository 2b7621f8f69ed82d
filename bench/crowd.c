// SPDX-License-Identifier: MIT
//
// usage: crowd SECONDS
// 64 threads that compute, share a lock and sleep. Each second it prints how many rounds they have
// made since the beginning.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 64, kSteps = 200000, kTable = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds, table[kTable];

static uint64_t compute(uint64_t state) {
  for (int i = 0; i < kSteps; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  return state;
}

static void* work(void* seed) {
  for (uint64_t state = (uintptr_t)seed;;) {
    state = compute(state);
    pthread_mutex_lock(&lock);
    table[state % kTable] += state;
    rounds++;
    pthread_mutex_unlock(&lock);
    const struct timespec nap = {0, (long)(state % 4000000)};
    nanosleep(&nap, NULL);
  }
  return NULL;
}

int main(int argc, char** argv) {
  for (uintptr_t i = 1; i <= kThreads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void*)(i * 7919)) != 0) return 1;
  }
  for (int left = argc > 1 ? atoi(argv[1]) : 10; left > 0; left--) {
    sleep(1);
    pthread_mutex_lock(&lock);
    printf("%llu\n", (unsigned long long)rounds);
    pthread_mutex_unlock(&lock);
    fflush(stdout);
  }
  return 0;
}
