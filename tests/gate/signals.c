// SPDX-License-Identifier: MIT
//
// Signals that come again and again in one place: from another thread to one that only yields, and
// from a timer to one that only waits. threads.py runs it.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { kRounds = 20, kSignals = 50 };

static volatile sig_atomic_t handled;
static unsigned long yields;

static void on_signal(int number) {
  (void)number;
  handled = handled + 1;
}

static void* yield_until_all_came(void* started) {
  sem_post(started);
  for (; handled < kSignals; yields++) sched_yield();
  return NULL;
}

static void send_to_a_thread(void) {
  handled = 0;
  sem_t started;
  pthread_t thread;
  sem_init(&started, 0, 0);
  pthread_create(&thread, NULL, yield_until_all_came, &started);
  sem_wait(&started);
  for (int i = 0; i < kSignals; i++) {
    pthread_kill(thread, SIGUSR1);
    while (handled <= i) sched_yield();
  }
  pthread_join(thread, NULL);
}

static void wait_for_a_timer(void) {
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  handled = 0;
  setitimer(ITIMER_REAL, &often, NULL);
  while (handled < kSignals) pause();
  setitimer(ITIMER_REAL, &never, NULL);
}

int main(void) {
  signal(SIGUSR1, on_signal);
  signal(SIGALRM, on_signal);
  for (int i = 0; i < kRounds; i++) send_to_a_thread();
  wait_for_a_timer();
  printf("%d signals, %lu yields\n", kRounds * kSignals + kSignals, yields);
  return 0;
}
