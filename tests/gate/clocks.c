// SPDX-License-Identifier: MIT
//
// Reads clocks, sleeps, and waits with timeouts; says what it was told. machine.py runs it.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static long long nanoseconds(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return -1;
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct timespec later(clockid_t clock, long milliseconds) {
  const long long then = nanoseconds(clock) + milliseconds * 1000000LL;
  return (struct timespec){then / 1000000000, then % 1000000000};
}

// How many milliseconds the clock says that something took, of `wanted`.
static void took(const char* name, long long before, long wanted, long result) {
  const long long passed = nanoseconds(CLOCK_MONOTONIC) - before;
  const int right = passed >= wanted * 1000000LL && passed < (wanted + 2) * 1000000LL;
  printf("%s: %ld, %s, %lld\n", name, result, right ? "as long as it should" : "WRONG", passed);
}

static void tell_clocks(void) {
  for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_TAI; clock++) {
    struct timespec resolution = {0, 0};
    const int known = clock_getres(clock, &resolution);
    printf("clock %d: %lld, %d %ld\n", clock, nanoseconds(clock), known, resolution.tv_nsec);
  }
  struct timeval day;
  struct timezone zone = {1, 1};
  gettimeofday(&day, &zone);
  printf("day: %ld %ld %d, %ld\n", day.tv_sec, day.tv_usec, zone.tz_minuteswest, time(NULL));
  unsigned core = 7;
  const unsigned long long first = __rdtsc(), second = __rdtscp(&core);
  printf("stamp: %llu, %llu more, core %u\n", first, second - first, core);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  struct tms ticks;
  const long tick = times(&ticks);
  printf("used: %ld.%06ld, %ld faults, %ld, %ld\n", used.ru_utime.tv_sec, used.ru_utime.tv_usec,
         used.ru_minflt, tick, ticks.tms_utime);
}

static void tell_waits(void) {
  const struct timespec third = {0, 3000000};
  long long before = nanoseconds(CLOCK_MONOTONIC);
  took("nanosleep", before, 3, nanosleep(&third, NULL));
  for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
    const struct timespec then = later(clock, 4);
    before = nanoseconds(CLOCK_MONOTONIC);
    took("clock_nanosleep", before, 3, clock_nanosleep(clock, TIMER_ABSTIME, &then, NULL));
  }
  before = nanoseconds(CLOCK_MONOTONIC);
  took("poll", before, 5, poll(NULL, 0, 5));
  struct timeval length = {0, 6000};
  before = nanoseconds(CLOCK_MONOTONIC);
  took("select", before, 6, select(0, NULL, NULL, NULL, &length));
  const int events = epoll_create1(0);
  struct epoll_event event;
  before = nanoseconds(CLOCK_MONOTONIC);
  took("epoll", before, 2, epoll_wait(events, &event, 1, 2));
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const struct timespec then = later(CLOCK_REALTIME, 5);
  before = nanoseconds(CLOCK_MONOTONIC);
  const int result = sem_timedwait(&semaphore, &then);
  took(strerrorname_np(errno), before, 4, result);
}

static void tell_waits_that_end(void) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1) return;
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  struct timeval length = {3, 5};
  const int ready = select(ends[0] + 1, &set, NULL, NULL, &length);
  printf("remains: %d, %ld %ld\n", ready, length.tv_sec, length.tv_usec);
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec then = {{0, 0}, later(CLOCK_MONOTONIC, 2)};
  unsigned long long expired = 0;
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &then, NULL);
  const long got = read(timer, &expired, sizeof expired);
  printf("timer: %ld %llu\n", got, expired);
}

int main(void) {
  tell_clocks();
  tell_waits();
  tell_waits_that_end();
  long loops = 0;
  const long long end = nanoseconds(CLOCK_MONOTONIC) + 10000000;
  while (nanoseconds(CLOCK_MONOTONIC) < end) loops++;
  for (const clock_t stop = clock() + 5000; clock() < stop;) loops++;
  for (const unsigned long long stop = __rdtsc() + 3000000; __rdtsc() < stop;) loops++;
  printf("loops: %ld\n", loops);
  tell_clocks();
  return 0;
}
