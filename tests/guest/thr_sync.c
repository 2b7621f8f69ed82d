// SPDX-License-Identifier: MIT
//
// 64 threads and every way to make them wait for each other: mutexes of all kinds, condition
// variables, barriers, read-write locks, semaphores, once, spin locks, a robust mutex whose owner
// dies; and atomics that all of them hit at once.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "guest.h"

enum { kThreads = 64, kRounds = 300 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static uint64_t under_mutex, under_spinlock, under_rwlock, turns, once_count;
static _Atomic uint64_t added, ored, compared, in_semaphore, barrier_leaders;
static __thread uint64_t local_sum;
static __thread char local_bytes[100] = "thread local";

static void count_once(void) {
  ++once_count;
}

static void enter_semaphore(void) {
  EXPECT(sem_wait(&semaphore) == 0);
  const uint64_t inside = atomic_fetch_add(&in_semaphore, 1) + 1;
  EXPECT(inside <= 3);
  atomic_fetch_sub(&in_semaphore, 1);
  EXPECT(sem_post(&semaphore) == 0);
}

static void* body(void* argument) {
  const uint64_t number = (uint64_t)(uintptr_t)argument;
  EXPECT(strcmp(local_bytes, "thread local") == 0 && local_sum == 0);
  snprintf(local_bytes, sizeof(local_bytes), "thread %d", (int)number);
  pthread_once(&once, count_once);
  for (uint64_t i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&mutex);
    under_mutex += number + i;
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&added, i);
    atomic_fetch_or(&ored, 1ull << number);
    uint64_t old = atomic_load(&compared);
    while (!atomic_compare_exchange_weak(&compared, &old, old + number)) {
    }
    if (i % 16 == 0) {
      pthread_spin_lock(&spinlock);
      ++under_spinlock;
      pthread_spin_unlock(&spinlock);
      enter_semaphore();
    }
    if (i % 8 == 0) {
      pthread_rwlock_wrlock(&rwlock);
      ++under_rwlock;
      pthread_rwlock_unlock(&rwlock);
    }
    pthread_rwlock_rdlock(&rwlock);
    local_sum += under_rwlock >= 1;
    pthread_rwlock_unlock(&rwlock);
  }
  EXPECT(local_sum == kRounds);
  // Strictly in turn.
  for (uint64_t round = 0; round < 5; ++round) {
    pthread_mutex_lock(&mutex);
    while (turns % kThreads != number) pthread_cond_wait(&turn_changed, &mutex);
    ++turns;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < 10; ++i)
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
      atomic_fetch_add(&barrier_leaders, 1);
  char expected[32];
  snprintf(expected, sizeof(expected), "thread %d", (int)number);
  EXPECT(strcmp(local_bytes, expected) == 0);
  return (void*)(uintptr_t)(number * 3);
}

static void* die_with_lock(void* robust) {
  pthread_mutex_lock(robust);
  return NULL;
}

static void test_mutex_kinds(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t robust;
  pthread_mutex_init(&robust, &attributes);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, die_with_lock, &robust) == 0);
  pthread_join(thread, NULL);
  const int result = pthread_mutex_lock(&robust);
  printf("robust %s\n", result == EOWNERDEAD ? "owner dead" : "?");
  pthread_mutex_consistent(&robust);
  EXPECT(pthread_mutex_unlock(&robust) == 0 && pthread_mutex_lock(&robust) == 0);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_t recursive;
  pthread_mutex_init(&recursive, &attributes);
  for (int i = 0; i < 5; ++i) EXPECT(pthread_mutex_lock(&recursive) == 0);
  for (int i = 0; i < 5; ++i) EXPECT(pthread_mutex_unlock(&recursive) == 0);
  EXPECT(pthread_mutex_unlock(&recursive) == EPERM);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_t checking;
  pthread_mutex_init(&checking, &attributes);
  EXPECT(pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&checking) == EDEADLK);
  EXPECT(pthread_mutex_trylock(&checking) != 0);
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_nsec = 0;
  pthread_mutex_lock(&mutex);
  EXPECT(pthread_cond_timedwait(&turn_changed, &mutex, &soon) == ETIMEDOUT);
  pthread_mutex_unlock(&mutex);
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&barrier, NULL, kThreads);
  pthread_spin_init(&spinlock, 0);
  sem_init(&semaphore, 0, 3);
  for (uintptr_t i = 0; i < kThreads; ++i)
    EXPECT(pthread_create(&threads[i], NULL, body, (void*)i) == 0);
  uint64_t results = 0;
  for (int i = 0; i < kThreads; ++i) {
    void* result;
    EXPECT(pthread_join(threads[i], &result) == 0);
    results += (uint64_t)(uintptr_t)result;
  }
  printf("mutex %llu spin %llu rwlock %llu turns %llu once %llu results %llu\n",
         (unsigned long long)under_mutex, (unsigned long long)under_spinlock,
         (unsigned long long)under_rwlock, (unsigned long long)turns,
         (unsigned long long)once_count, (unsigned long long)results);
  printf("atomics %llu %llx %llu, leaders %llu\n", (unsigned long long)added,
         (unsigned long long)ored, (unsigned long long)compared,
         (unsigned long long)barrier_leaders);
  test_mutex_kinds();
  return 0;
}
