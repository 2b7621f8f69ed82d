// SPDX-License-Identifier: MIT
//
// A program that executes itself again and again, each time from a thread that has only just begun,
// while others compute. Who traces the first thread is not told of that by the kernel, unless the
// new one is traced as well by then. Arguments: how often, and for how many milliseconds each
// computes.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "guest.h"

enum { kComputing = 4, kTimes = 12 };

static int left;
static char* duration;
static volatile int forever = 1;

static void* compute(void* seed) {
  uint64_t sum = (uint64_t)(uintptr_t)seed;
  while (forever) sum = burn(sum, 100);
  return (void*)(uintptr_t)sum;
}

static void* execute_again(void* from_thread) {
  char text[16];
  snprintf(text, sizeof text, "%d", left - 1);
  EXPECT(execl("/proc/self/exe", "thr_exec", text, duration, (char*)NULL) == 0);
  return from_thread;
}

int main(int argc, char** argv) {
  left = argc > 1 ? atoi(argv[1]) : kTimes;
  duration = argc > 2 ? argv[2] : NULL;
  printf("%d left\n", left);
  fflush(stdout);
  pthread_t thread;
  for (uintptr_t i = 0; i < kComputing; ++i)
    EXPECT(pthread_create(&thread, NULL, compute, (void*)i) == 0);
  // So that some are looked at, and some are not.
  usleep(1000 * (duration != NULL ? atoi(duration) : left % 4 * 10));
  if (left == 0) return 0;
  EXPECT(pthread_create(&thread, NULL, execute_again, NULL) == 0);
  pthread_join(thread, NULL);
  return 1;
}
