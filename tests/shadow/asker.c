// SPDX-License-Identifier: MIT
//
// asker [SECONDS]: asks all the time how it is scheduled and on which cores it may run. Nothing of
// that changes; what is not as it was at first is seen by the name of what is called.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct scheduling {
  cpu_set_t cores;
  int policy;
  int nice;
  int static_priority;
};

static struct scheduling ask(void) {
  struct scheduling now = {.policy = sched_getscheduler(0), .nice = getpriority(PRIO_PROCESS, 0)};
  struct sched_param parameters = {0};
  sched_getparam(0, &parameters);
  now.static_priority = parameters.sched_priority;
  CPU_ZERO(&now.cores);
  sched_getaffinity(0, sizeof now.cores, &now.cores);
  return now;
}

static volatile unsigned long changes;

__attribute__((noinline)) void is_told_otherwise(void) {
  changes++;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 2;
  const struct scheduling first = ask();
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    const struct scheduling again = ask();
    if (!CPU_EQUAL(&first.cores, &again.cores) || first.policy != again.policy ||
        first.nice != again.nice || first.static_priority != again.static_priority) {
      is_told_otherwise();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) < seconds);
  puts(changes == 0 ? "done" : "the program itself was told otherwise");
  return 0;
}
