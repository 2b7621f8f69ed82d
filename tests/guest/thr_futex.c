// SPDX-License-Identifier: MIT
//
// Futex calls made by hand: a word that has another value, a wait that times out, and a wait that
// another thread ends.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static uint32_t word, seen;

static long futex(int operation, uint32_t value, const struct timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, NULL, 0);
}

// Wakes until it woke somebody, or until the other thread saw the new value without a wait.
static void* wake(void* argument) {
  (void)argument;
  __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
  while (futex(FUTEX_WAKE_PRIVATE, 1, NULL) == 0 && !__atomic_load_n(&seen, __ATOMIC_SEQ_CST))
    sched_yield();
  return NULL;
}

int main(void) {
  EXPECT(futex(FUTEX_WAIT_PRIVATE, 5, NULL) == -1 && errno == EAGAIN);
  const struct timespec shortly = {0, 5000000};
  EXPECT(futex(FUTEX_WAIT_PRIVATE, 0, &shortly) == -1 && errno == ETIMEDOUT);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, wake, NULL) == 0);
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) futex(FUTEX_WAIT_PRIVATE, 0, NULL);
  __atomic_store_n(&seen, 1, __ATOMIC_SEQ_CST);
  pthread_join(thread, NULL);
  printf("futex\n");
  return 0;
}
