// SPDX-License-Identifier: MIT
//
// A static program at a fixed address that does what makes an engine move or give up, calls work()
// a known number of times before and after it, and prints a sum.
//
//   leaving middle    maps memory of its own at 0x6f000000
//   leaving all       maps the second half of the first 2 GB, and unmaps it again
//   leaving threads   the same, while other threads compute and wait
//   leaving gs        sets the gs base
//   leaving work      nothing of it
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kCalls = 1000, kThreads = 3, kStatus = 7 };

static volatile int done;
static int fds[2];

__attribute__((noinline)) uint64_t work(uint64_t x) {
  for (int i = 0; i < 100; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

static uint64_t rounds(uint64_t x) {
  for (int i = 0; i < kCalls; i++) x = work(x);
  return x;
}

static void* compute(void* x) {
  uint64_t value = (uint64_t)(uintptr_t)x;
  while (!done) value ^= value << 1;
  return (void*)(uintptr_t)rounds((uint64_t)(uintptr_t)x);
}

static void* wait_for_byte(void* x) {
  char byte = 0;
  if (read(fds[0], &byte, 1) != 1) abort();
  return (void*)(uintptr_t)rounds((uint64_t)(uintptr_t)x + (uint64_t)byte);
}

static void map(uintptr_t from, uintptr_t to) {
  unsigned char* p = mmap((void*)from, to - from, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (p != (void*)from) abort();
  for (uintptr_t at = 0; at < to - from; at += (to - from) / 16) {
    if (p[at] != 0) abort();
    p[at] = 1;
  }
  if (munmap(p, to - from) != 0) abort();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "work";
  const int threaded = strcmp(what, "threads") == 0;
  uint64_t sum = rounds(1);
  pthread_t threads[kThreads];
  if (threaded) {
    if (pipe(fds) != 0) abort();
    for (intptr_t i = 0; i < kThreads; i++)
      if (pthread_create(&threads[i], NULL, i == 0 ? wait_for_byte : compute, (void*)(i + 2)) != 0)
        abort();
    usleep(20000);
  }
  if (strcmp(what, "middle") == 0) map(0x6f000000, 0x6f100000);
  if (strcmp(what, "all") == 0 || threaded) map(0x48000000, 0x7ff00000);
  if (strcmp(what, "gs") == 0 && syscall(SYS_arch_prctl, 0x1001, &sum) != 0) abort();
  if (threaded) {
    done = 1;
    if (write(fds[1], "a", 1) != 1) abort();
    for (int i = 0; i < kThreads; i++) {
      void* result = NULL;
      pthread_join(threads[i], &result);
      sum += (uint64_t)(uintptr_t)result;
    }
  }
  printf("%llu\n", (unsigned long long)rounds(sum));
  return kStatus;
}
