// SPDX-License-Identifier: MIT
//
// Threads that wait for one another in every way there is; says in which order they came.
// threads.py runs it. usage: threads [THREADS]
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 64 };

static int threads = 8;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t tokens;
static int ends[2];
static int next;
static atomic_int flag;
static atomic_ulong racing;
static volatile sig_atomic_t handled;
static unsigned long order;

// What depends on who comes first.
static void come(int who) {
  order = order * 31 + (unsigned long)who;
}

static void come_locked(int who) {
  pthread_mutex_lock(&lock);
  come(who);
  pthread_mutex_unlock(&lock);
}

static void on_signal(int number) {
  (void)number;
  handled++;
  come((int)racing & 15);
}

// Without a lock: what a switch of threads between two instructions shows.
static void race(int who) {
  for (int i = 0; i < 20000; i++) {
    const unsigned long seen = atomic_load_explicit(&racing, memory_order_relaxed);
    atomic_store_explicit(&racing, seen * 5 + (unsigned long)who, memory_order_relaxed);
  }
}

static void allocate(int who) {
  void* kept[32] = {0};
  unsigned random = (unsigned)who * 77 + 1;
  for (int i = 0; i < 2000; i++) {
    random = random * 1103515245 + 12345;
    void** place = &kept[random >> 16 & 31];
    free(*place);
    *place = malloc((random >> 8 & 2047) + 1);
    memset(*place, who, 1);
  }
  for (int i = 0; i < 32; i++) free(kept[i]);
}

static void wait_for_turn(int who) {
  pthread_mutex_lock(&lock);
  while (next % threads != who) pthread_cond_wait(&changed, &lock);
  next++;
  come(who);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void wait_for_time(int who) {
  struct timespec then;
  const struct timespec length = {0, 100000 * (1 + who * 7 % 5)};
  nanosleep(&length, NULL);
  come_locked(who);
  clock_gettime(CLOCK_REALTIME, &then);
  then.tv_sec += then.tv_nsec >= 999000000;
  then.tv_nsec = (then.tv_nsec + 1000000) % 1000000000;
  pthread_mutex_lock(&lock);
  if (pthread_cond_timedwait(&changed, &lock, &then) != 0) come(who);
  pthread_mutex_unlock(&lock);
  poll(NULL, 0, who % 3);
  come_locked(who);
}

static void spin(int who) {
  if (who == threads - 1) atomic_store(&flag, 1);
  while (!atomic_load(&flag)) {
  }
  come_locked(who);
}

static void exchange(int who) {
  char byte = (char)who;
  if (who % 2 == 0) {
    if (write(ends[1], &byte, 1) != 1) abort();
    sem_wait(&tokens);
  } else {
    if (read(ends[0], &byte, 1) != 1) abort();
    come_locked(byte);
    sem_post(&tokens);
  }
}

static void* work(void* argument) {
  const int who = (int)(long)argument;
  race(who);
  allocate(who);
  for (int i = 0; i < 20; i++) {
    come_locked(who);
    if (i % 7 == who % 7) sched_yield();
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 2; i++) wait_for_turn(who);
  wait_for_time(who);
  spin(who);
  exchange(who);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  if (threads < 2 || threads > kMost || threads % 2 != 0) return 2;
  pthread_t all[kMost];
  signal(SIGUSR1, on_signal);
  if (pipe(ends) != 0) return 2;
  sem_init(&tokens, 0, 0);
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void*)i);
  for (int i = 0; i < 5; i++) pthread_kill(all[i % threads], SIGUSR1);
  kill(getpid(), SIGUSR1);
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  printf("order %lx, raced %lx, signals %d\n", order, (unsigned long)racing, handled);
  return 0;
}
