// SPDX-License-Identifier: MIT
//
// What a program loses to a neighbour on another core that needs the same caches as often. One
// process changes words of its memory at random; its neighbour does so in memory of its own, or
// reads, in every other period of some milliseconds. A period with it is compared with the two
// around it, as on a machine that others share the next minute is another one.
//
// usage: neighbour MEGABYTES change|read MEGABYTES [SECONDS [PERIOD-MS]]
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kSteps = 1000 };  // between two looks at the clock

struct Memory {
  uint64_t* words;
  uint64_t count;
  uint64_t state;  // of the random numbers
};

struct Period {
  double seconds;
  double rounds;  // of kSteps
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void stay_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    perror("neighbour: two cores are needed");
    exit(1);
  }
}

static struct Memory make_memory(double megabytes) {
  struct Memory memory = {NULL, (uint64_t)(megabytes * 1e6 / 8) + 1, 88172645463325252U};
  memory.words = mmap(NULL, memory.count * 8, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory.words == MAP_FAILED) {
    perror("neighbour");
    exit(1);
  }
  for (uint64_t i = 0; i < memory.count; i++) memory.words[i] = i;
  return memory;
}

static uint64_t* any_word(struct Memory* memory) {
  memory->state ^= memory->state << 13;
  memory->state ^= memory->state >> 7;
  memory->state ^= memory->state << 17;
  return memory->words + (((memory->state >> 32) * memory->count) >> 32);
}

static void change(struct Memory* memory) {
  for (int i = 0; i < kSteps; i++) *any_word(memory) += memory->state;
}

static uint64_t read_words(struct Memory* memory) {
  uint64_t sum = 0;
  for (int i = 0; i < kSteps; i++) sum += *any_word(memory);
  return sum;
}

static uint64_t period_at(double moment, double period) {
  return (uint64_t)(moment / period);
}

// It works in periods of even numbers.
static void be_the_neighbour(int changes, double megabytes, double period) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stay_on(1);
  struct Memory memory = make_memory(megabytes);
  volatile uint64_t sum = 0;
  for (;;) {
    if (period_at(now(), period) % 2 == 1) {
      const struct timespec pause = {0, (long)(period * 1e8)};
      nanosleep(&pause, NULL);
    } else if (changes) {
      change(&memory);
    } else {
      sum += read_words(&memory);
    }
  }
}

// Without the first fifth of each, in which the neighbour may still be waking up. Returns the
// number of the first.
static uint64_t work(struct Memory* memory, struct Period* periods, size_t count, double period) {
  const uint64_t first = period_at(now(), period) + 1;
  double before = now();
  for (;;) {
    change(memory);
    const double after = now();
    const uint64_t number = period_at(after, period);
    if (number >= first + count) return first;
    if (number >= first && before > ((double)number + 0.2) * period) {
      periods[number - first].seconds += after - before;
      periods[number - first].rounds++;
    }
    before = after;
  }
}

static double seconds_per_round(const struct Period* period) {
  return period->rounds > 0 ? period->seconds / period->rounds : 0;
}

static int compare(const void* one, const void* other) {
  const double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

static void print(const struct Period* periods, size_t count, uint64_t first) {
  double* logs = calloc(count, sizeof *logs);
  size_t found = 0;
  double sum = 0, squares = 0, alone = 0;
  for (size_t i = 2 - first % 2; i + 1 < count; i += 2) {
    const double before = seconds_per_round(&periods[i - 1]),
                 beside = seconds_per_round(&periods[i]),
                 after = seconds_per_round(&periods[i + 1]);
    if (before == 0 || beside == 0 || after == 0) continue;
    const double ratio = log(2 * beside / (before + after));
    logs[found++] = ratio;
    sum += ratio;
    squares += ratio * ratio;
    alone += before;
  }
  if (found < 2) {
    fprintf(stderr, "neighbour: too few periods\n");
    exit(1);
  }
  qsort(logs, found, sizeof *logs, compare);
  const double n = (double)found, mean = sum / n;
  const double error = sqrt((squares / n - mean * mean) / (n - 1));
  printf("median %.1f %%, mean %.1f +- %.1f %%, %.1f ns a word without it, %zu periods\n",
         100 * logs[found / 2], 100 * mean, 100 * error, 1e9 / kSteps * alone / n, found);
  free(logs);
}

int main(int argc, char** argv) {
  const int changes = argc >= 4 && strcmp(argv[2], "change") == 0;
  const int reads = argc >= 4 && strcmp(argv[2], "read") == 0;
  const double seconds = argc > 4 ? atof(argv[4]) : 6;
  const double period = (argc > 5 ? atof(argv[5]) : 10) / 1000;
  if ((!changes && !reads) || argc > 6 || seconds <= 0 || period <= 0) {
    fprintf(stderr, "usage: %s MEGABYTES change|read MEGABYTES [SECONDS [PERIOD-MS]]\n", argv[0]);
    return 2;
  }
  const pid_t neighbour = fork();
  if (neighbour < 0) {
    perror("neighbour");
    return 1;
  }
  if (neighbour == 0) be_the_neighbour(changes, atof(argv[3]), period);
  stay_on(0);
  struct Memory memory = make_memory(atof(argv[1]));
  const size_t count = (size_t)(seconds / period);
  struct Period* periods = calloc(count, sizeof *periods);
  sleep(1);
  const uint64_t first = work(&memory, periods, count, period);
  kill(neighbour, SIGKILL);
  waitpid(neighbour, NULL, 0);
  print(periods, count, first);
  free(periods);
  return 0;
}
