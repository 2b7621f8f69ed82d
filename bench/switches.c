// SPDX-License-Identifier: MIT
//
// usage: switches SECONDS
// Two threads hand a byte to one another through pipes. Prints for each quarter of a second how
// often in a second it came back: profile the process for some of them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void* answer(void* unused) {
  char c;
  while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1) {
  }
  return unused;
}

int main(int argc, char** argv) {
  const double quarter = 0.25, begin = now(), end = begin + (argc > 1 ? atof(argv[1]) : 10);
  pthread_t thread;
  if (pipe(there) != 0 || pipe(back) != 0 || pthread_create(&thread, NULL, answer, NULL) != 0)
    return 1;
  char c = 1;
  long times = 0;
  for (double next = begin + quarter; next < end;) {
    if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 1;
    times++;
    if (times % 64 != 0 || now() < next) continue;
    printf("%.0f\n", (double)times / quarter);
    fflush(stdout);
    times = 0;
    next += quarter;
  }
  return 0;
}
