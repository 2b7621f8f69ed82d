// SPDX-License-Identifier: MIT
//
// A program with much resident memory that notices when it is stopped: fills so many MiB with small
// pages, prints "ready", computes in them for some seconds, and prints for how long one of its
// threads stood still at the worst, by its own clock, and how many rounds they have made.
//
//   read   the threads read at random places, instead of writing there
//   fork   it forks once at first, and says how long that took
//
// usage: resident MIB SECONDS [THREADS [read|write [fork]]]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMostThreads = 64, kAccesses = 20 };

struct worker {
  pthread_t thread;
  uint64_t state;
  double longest;
  uint64_t rounds;
};

static uint8_t* memory;
static size_t bytes;
static double seconds;
static int reads;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t next_place(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 16) % bytes;
}

static void* work(void* argument) {
  struct worker* own = argument;
  uint64_t state = own->state;
  const double end = now() + seconds;
  for (double last = now(), time; last < end; last = time) {
    if (reads) {
      for (int i = 0; i < kAccesses; i++) state += memory[next_place(&state)];
    } else {
      for (int i = 0; i < kAccesses; i++) memory[next_place(&state)]++;
    }
    time = now();
    if (time - last > own->longest) own->longest = time - last;
    own->rounds++;
  }
  own->state = state;
  return NULL;
}

static void fork_once(void) {
  const double start = now();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  printf("fork %.2f ms\n", 1e3 * (now() - start));
  waitpid(child, NULL, 0);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  bytes = (size_t)atol(argv[1]) << 20;
  seconds = atof(argv[2]);
  const int threads = argc > 3 ? atoi(argv[3]) : 1;
  reads = argc > 4 && strcmp(argv[4], "read") == 0;
  if (bytes == 0 || threads < 1 || threads > kMostThreads) return 2;
  memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = (uint8_t)i;
  if (argc > 5) fork_once();
  printf("ready\n");
  fflush(stdout);
  static struct worker workers[kMostThreads];
  for (int i = 0; i < threads; i++) {
    workers[i].state = (uint64_t)i + 1;
    if (i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) return 1;
  }
  work(&workers[0]);
  double longest = workers[0].longest;
  uint64_t rounds = workers[0].rounds;
  for (int i = 1; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].longest > longest) longest = workers[i].longest;
    rounds += workers[i].rounds;
  }
  printf("longest stop %.2f ms, %llu rounds\n", 1e3 * longest, (unsigned long long)rounds);
  return 0;
}
