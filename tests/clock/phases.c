// SPDX-License-Identifier: MIT
//
// Phases of known length in processor time, in functions that execute instructions at very
// different rates. Prints how long each took, by the thread's own clock: "NAME SECONDS" lines. The
// last one is what the kernel took of all, page faults of the setup included.
//
//   phases [SECONDS]: all of them together, about
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 40, kCells = 1 << 21, kCellBytes = 64 };

struct cell {
  struct cell* next;
  char rest[kCellBytes - sizeof(struct cell*)];
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile uint64_t sink;

// Many instructions a second.
__attribute__((noinline)) void count_up(double until) {
  uint64_t a = 1, b = 2, c = 3, d = 4;
  while (now() < until) {
    for (int i = 0; i < 200000; i++) {
      a += 3, b ^= 5, c += 7, d -= 11;
      __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
  }
  sink = a + b + c + d;
}

// Few: each waits for memory.
__attribute__((noinline)) const struct cell* follow_list(const struct cell* at, double until) {
  while (now() < until) {
    for (int i = 0; i < 4000; i++) at = at->next;
  }
  return at;
}

// Few, too.
__attribute__((noinline)) void divide(double until) {
  uint64_t a = UINT64_MAX;
  while (now() < until) {
    for (int i = 0; i < 20000; i++) {
      uint64_t quotient = a, rest = 1;
      __asm__ volatile("divq %2" : "+a"(quotient), "+d"(rest) : "r"(a | 3));
      a = quotient | ((uint64_t)1 << 63);
    }
  }
  sink = a;
}

// Nearly none: the kernel works.
__attribute__((noinline)) void clear_memory(int zeros, char* buffer, size_t bytes, double until) {
  while (now() < until) {
    for (int i = 0; i < 20; i++) {
      if (read(zeros, buffer, bytes) < 0) abort();
    }
  }
}

static struct cell* make_list(void) {
  struct cell* cells = malloc((size_t)kCells * sizeof(struct cell));
  uint32_t* order = malloc(kCells * sizeof(uint32_t));
  uint64_t random = 88172645463325252u;
  for (uint32_t i = 0; i < kCells; i++) order[i] = i;
  for (uint32_t i = kCells - 1; i > 0; i--) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const uint32_t other = (uint32_t)(random % i);
    const uint32_t kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  for (uint32_t i = 0; i < kCells; i++) cells[order[i]].next = &cells[order[(i + 1) % kCells]];
  free(order);
  return cells;
}

static double scale = 1;
static double helper_s;

static void* help(void* none) {
  const double begun = now();
  count_up(begun + 0.2 * scale);
  helper_s = now() - begun;
  return none;
}

int main(int argc, char** argv) {
  scale = argc > 1 ? atof(argv[1]) : 4;
  const double begun = now();
  const struct cell* at = make_list();
  const double setup = now() - begun;
  const int zeros = open("/dev/zero", O_RDONLY);
  const size_t bytes = 1 << 16;
  char* buffer = malloc(bytes);
  pthread_t helper;
  if (pthread_create(&helper, NULL, help, NULL) != 0) return 1;
  pthread_setname_np(helper, "helper");
  double chased = 0, counted = 0, divided = 0, cleared = 0;
  for (int round = 0; round < kRounds; round++) {
    const double part = scale / kRounds;
    const double t0 = now();
    at = follow_list(at, t0 + 0.4 * part);
    const double t1 = now();
    count_up(t1 + 0.1 * part);
    const double t2 = now();
    divide(t2 + 0.2 * part);
    const double t3 = now();
    clear_memory(zeros, buffer, bytes, t3 + 0.1 * part);
    const double t4 = now();
    chased += t1 - t0, counted += t2 - t1, divided += t3 - t2, cleared += t4 - t3;
  }
  pthread_join(helper, NULL);
  sink = (uint64_t)(uintptr_t)at;
  printf(
      "follow_list %.6f\ncount_up %.6f\ndivide %.6f\nclear_memory %.6f\nsetup %.6f\nhelper %.6f\n",
      chased, counted + helper_s, divided, cleared, setup, helper_s);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("kernel %.6f\n", (double)used.ru_stime.tv_sec + 1e-6 * (double)used.ru_stime.tv_usec);
  return 0;
}
