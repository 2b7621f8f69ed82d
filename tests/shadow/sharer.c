// SPDX-License-Identifier: MIT
//
// sharer [SECONDS]: has the kernel write to shared memory all the time, by one call and another. No
// call is refused; where one is, that is seen by the name of what is called then.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 64, kBytes = 64 };

static volatile unsigned long refused;
static volatile unsigned long state = 1;

__attribute__((noinline)) void is_refused(void) {
  refused++;
}

__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 5000; i++) state = state * 6364136223846793005u + 1442695040888963407u;
}

__attribute__((noinline)) void have_written(int fd, char* at, unsigned long how) {
  const struct iovec parts[2] = {{at, kBytes}, {at + kPage, kBytes}};
  long wanted = 0, got = 0;
  switch (how) {
    case 0:
      got = syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at);
      break;
    case 1:
      got = syscall(SYS_getrandom, at, kBytes, 0);
      wanted = kBytes;
      break;
    case 2:
      got = syscall(SYS_fstat, fd, at);
      break;
    case 3:
      got = preadv(fd, parts, 2, 0);
      wanted = 2 * kBytes;
      break;
    default:
      got = pread(fd, at - kBytes / 2, kBytes, 0);
      wanted = kBytes;
  }
  if (got != wanted) is_refused();
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 2;
  char* shared = mmap(NULL, (kPages + 2) * kPage, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const int fd = open("/proc/self/exe", O_RDONLY);
  if (shared == MAP_FAILED || fd < 0) return 2;
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  unsigned long round = 0;
  do {
    have_written(fd, shared + (1 + round % kPages) * kPage, round % 5);
    compute();
    round++;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) < seconds);
  puts(refused == 0 ? "done" : "the program itself was refused a call");
  return 0;
}
