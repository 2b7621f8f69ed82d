// SPDX-License-Identifier: MIT
//
// Three named threads that take turns, six units of work for `alpha`, three for `beta` and one for
// `gamma`, so each has the same share of the instructions and of the time whatever the machine has
// to do. Each works in a function of its own, and all call `shared`.
//
// usage: relay ROUNDS [SHORT]
// SHORT: so many threads named `brief` besides, one after the other, that call `shared` once each.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kThreads = 3, kCallsPerUnit = 50, kLoops = 2000 };

static const int units[kThreads] = {6, 3, 1};
static const char* const names[kThreads] = {"alpha", "beta", "gamma"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static long rounds;

__attribute__((noinline)) uint64_t shared(uint64_t x) {
  for (int i = 0; i < kLoops; i++) {
    x ^= x << 7;
    x ^= x >> 9;
    __asm__ volatile("" : "+r"(x));
  }
  return x;
}

// The asm keeps the compiler from making one function of the three.
#define WORK(name, mark)                                         \
  __attribute__((noinline)) uint64_t name(uint64_t x, int calls) { \
    for (int c = 0; c < calls; c++) {                             \
      for (int i = 0; i < kLoops; i++) {                          \
        x += (uint64_t)i * (mark);                                \
        __asm__ volatile("# " #name : "+r"(x));                   \
      }                                                           \
      x = shared(x);                                              \
    }                                                             \
    return x;                                                     \
  }
WORK(work_alpha, 3)
WORK(work_beta, 5)
WORK(work_gamma, 7)

static uint64_t (*const works[kThreads])(uint64_t, int) = {work_alpha, work_beta, work_gamma};

static void* run(void* argument) {
  const int who = (int)(intptr_t)argument;
  uint64_t x = 1;
  pthread_setname_np(pthread_self(), names[who]);
  for (long round = 0; round < rounds; round++) {
    pthread_mutex_lock(&lock);
    while (turn != who) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    x = works[who](x, units[who] * kCallsPerUnit);
    pthread_mutex_lock(&lock);
    turn = (turn + 1) % kThreads;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
  }
  return (void*)(uintptr_t)(x | 1);
}

static void* run_briefly(void* argument) {
  (void)argument;
  pthread_setname_np(pthread_self(), "brief");
  return (void*)(uintptr_t)(shared(1) | 1);
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atol(argv[1]) : 20;
  const long brief = argc > 2 ? atol(argv[2]) : 0;
  pthread_t threads[kThreads];
  void* result;
  for (int i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i) != 0) return 1;
  for (long i = 0; i < brief; i++) {
    pthread_t one;
    if (pthread_create(&one, NULL, run_briefly, NULL) != 0) return 1;
    pthread_join(one, &result);
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], &result);
  printf("done\n");
  return 0;
}
