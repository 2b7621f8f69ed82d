// SPDX-License-Identifier: MIT
//
// Two threads that compute until the program is killed, each in a function of its own and with
// numbers of its own in general and vector registers. Now and then they hand a token to each other
// and wait for it, and one of them starts a third thread and waits for its end.
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#define NOT_COPIED __attribute__((noinline))

enum { kRounds = 20000, kHandOver = 1024, kThird = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int holder;

static NOT_COPIED void registers_are_corrupted(void) { _exit(3); }

// Both halves stay equal as long as nobody else's registers come in between.
#define WORK(name, step)                                        \
  static NOT_COPIED void name(void) {                           \
    uint64_t whole = step;                                      \
    double real = step;                                         \
    for (int i = 0; i < kRounds; i++) {                         \
      whole = (whole + step) & 0xffffff;                        \
      real += step;                                             \
      if (real >= 0x1000000) real -= 0x1000000;                 \
      __asm__ volatile("" : "+r"(whole), "+x"(real));           \
      if ((double)whole != real) registers_are_corrupted();     \
    }                                                           \
  }
WORK(work_by_three, 3)
WORK(work_by_seven, 7)
WORK(work_briefly, 11)

static void *third(void *unused) {
  work_briefly();
  return unused;
}

static void hand_over(int mine) {
  pthread_mutex_lock(&lock);
  while (holder != mine) pthread_cond_wait(&changed, &lock);
  holder = !mine;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static NOT_COPIED void *go_on(void *which) {
  const int mine = which != NULL;
  for (unsigned round = 1;; round++) {
    if (mine) {
      work_by_seven();
    } else {
      work_by_three();
    }
    if (round % kHandOver == 0) hand_over(mine);
    if (mine || round % kThird != 0) continue;
    pthread_t briefly;
    if (pthread_create(&briefly, NULL, third, NULL) == 0) pthread_join(briefly, NULL);
  }
  return which;
}

int main(void) {
  pthread_t other;
  return pthread_create(&other, NULL, go_on, &holder) != 0 || go_on(NULL) != NULL;
}
