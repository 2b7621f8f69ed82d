// SPDX-License-Identifier: MIT
//
// A program that unmaps the vdso, as some do that come with a C library of their own, and then runs
// code that it has not run before: with signals blocked that have handlers, in threads, in a child.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "guest.h"

// New code for each place that calls it.
#define COLD(n)                                                      \
  __attribute__((noinline)) static unsigned cold##n(unsigned x) {    \
    for (unsigned i = 0; i < (n) % 7 + 1; i++) x = x * (2 * (n) + 1) + i; \
    return x;                                                        \
  }
COLD(1) COLD(2) COLD(3) COLD(4) COLD(5) COLD(6) COLD(7) COLD(8)
typedef unsigned (*Cold)(unsigned);
static const Cold volatile kCold[] = {cold1, cold2, cold3, cold4, cold5, cold6, cold7, cold8};

static sigjmp_buf back;
static volatile sig_atomic_t faults, traps;

static void on_fault(int number) {
  faults++;
  (void)number;
  siglongjmp(back, 1);
}

static void on_trap(int number) {
  traps++;
  (void)number;
}

static int* volatile nowhere;

static void fault(void) {
  if (sigsetjmp(back, 1) == 0) *(volatile int*)nowhere = 1;
}

static void unmap_vdso(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  EXPECT(maps != NULL);
  unsigned long start = 0, end = 0;
  int found = 0;
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    if (strstr(line, "[vdso]") == NULL) continue;
    EXPECT(sscanf(line, "%lx-%lx", &start, &end) == 2);
    found++;
  }
  fclose(maps);
  EXPECT(found <= 1);
  if (found) EXPECT(munmap((void*)start, end - start) == 0);
}

static void* in_thread(void* seed) {
  unsigned x = (unsigned)(uintptr_t)seed;
  for (int i = 0; i < 1000; i++) x = kCold[4 + i % 2](x);
  return (void*)(uintptr_t)x;
}

int main(void) {
  signal(SIGSEGV, on_fault);
  signal(SIGTRAP, on_trap);
  sigset_t all, before;
  sigfillset(&all);
  unsigned x = (unsigned)burn(1, 20000000);  // for samples that still find it
  unmap_vdso();
  EXPECT(sigprocmask(SIG_BLOCK, &all, &before) == 0);
  for (int i = 0; i < 3; i++) x = kCold[i](x);
  EXPECT(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
  fault();
  raise(SIGTRAP);
  EXPECT(faults == 1 && traps == 1);

  pthread_t threads[3];
  unsigned sum = 0;
  for (uintptr_t i = 0; i < 3; i++)
    EXPECT(pthread_create(&threads[i], NULL, in_thread, (void*)i) == 0);
  for (int i = 0; i < 3; i++) {
    void* result;
    EXPECT(pthread_join(threads[i], &result) == 0);
    sum += (unsigned)(uintptr_t)result;
  }
  fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    x = kCold[6](x);
    fault();
    _exit(faults == 2 ? 7 : 1);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  for (int i = 0; i < 5000000; i++) x = kCold[7](x);
  fault();
  EXPECT(faults == 2);
  printf("%u %u\n", x, sum);
  return 0;
}
