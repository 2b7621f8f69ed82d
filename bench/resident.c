// SPDX-License-Identifier: MIT
//
// A program with much resident memory that notices when it is stopped: fills so many MiB with small
// pages, prints "ready", computes in them for some seconds, and prints for how long it stood still
// at the worst, by its own clock. With a third argument it forks once, and says how long that took.
//
// usage: resident MIB SECONDS [fork]
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const size_t bytes = (size_t)atol(argv[1]) << 20;
  const double seconds = atof(argv[2]);
  uint8_t* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = (uint8_t)i;
  if (argc > 3) {
    const double start = now();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    printf("fork %.2f ms\n", 1e3 * (now() - start));
    waitpid(child, NULL, 0);
  }
  printf("ready\n");
  fflush(stdout);
  uint64_t state = 1;
  double longest = 0;
  const double end = now() + seconds;
  for (double last = now(), time; last < end; last = time) {
    for (int i = 0; i < 20; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      memory[(state >> 16) % bytes]++;
    }
    time = now();
    if (time - last > longest) longest = time - last;
  }
  printf("longest stop %.2f ms\n", 1e3 * longest);
  return 0;
}
