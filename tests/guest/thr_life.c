// SPDX-License-Identifier: MIT
//
// How threads begin and end: 2,000 detached ones, cancellation (deferred, asynchronous, with
// cleanup handlers), pthread_exit with destructors of thread-specific data, stacks of their own,
// signals to one thread; then how the process ends, by argument: pthread_exit in main while others
// go on, exit_group or return while 32 threads compute, exec from a thread, death of a thread.
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "signals.h"

static _Atomic uint64_t ended, cleaned, destroyed, computed;
static pthread_key_t key;
static volatile int forever = 1;

static void* brief(void* argument) {
  atomic_fetch_add(&computed, burn((uint64_t)(uintptr_t)argument, 100) & 0xff);
  atomic_fetch_add(&ended, 1);
  return NULL;
}

static void test_detached(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (uintptr_t i = 0; i < 2000; ++i) {
    pthread_t thread;
    int result;
    while ((result = pthread_create(&thread, &attributes, brief, (void*)i)) == EAGAIN) sleep_ms(1);
    EXPECT(result == 0);
    if (i % 50 == 49)
      while (atomic_load(&ended) < i) sched_yield();
  }
  while (atomic_load(&ended) < 2000) sleep_ms(1);
  printf("detached %llu computed %llu\n", (unsigned long long)ended, (unsigned long long)computed);
}

static void cleanup(void* argument) {
  atomic_fetch_add(&cleaned, (uint64_t)(uintptr_t)argument);
}
static void destroy(void* value) {
  atomic_fetch_add(&destroyed, (uint64_t)(uintptr_t)value);
}

static void* wait_deferred(void* argument) {
  pthread_cleanup_push(cleanup, (void*)1);
  sem_post(argument);
  for (;;) sleep_ms(1000);
  pthread_cleanup_pop(1);
  return NULL;
}
static void* spin_async(void* argument) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  pthread_cleanup_push(cleanup, (void*)100);
  sem_post(argument);
  while (forever) {
  }
  pthread_cleanup_pop(1);
  return NULL;
}
static void* read_pipe(void* argument) {
  int fds[2];
  EXPECT(pipe(fds) == 0);
  pthread_cleanup_push(cleanup, (void*)10000);
  sem_post(argument);
  char byte;
  (void)!read(fds[0], &byte, 1);
  pthread_cleanup_pop(0);
  return NULL;
}
static void* refuse(void* argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  sem_post(argument);
  sleep_ms(20);
  pthread_setspecific(key, (void*)7);
  pthread_exit((void*)5);
}

static void test_cancel(void) {
  sem_t started;
  sem_init(&started, 0, 0);
  EXPECT(pthread_key_create(&key, destroy) == 0);
  void* (*const bodies[])(void*) = {wait_deferred, spin_async, read_pipe, refuse};
  int canceled = 0, own = 0;
  for (int i = 0; i < 40; ++i) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, bodies[i % 4], &started) == 0);
    EXPECT(sem_wait(&started) == 0);
    if (i % 8 < 4) sleep_ms(2);
    EXPECT(pthread_cancel(thread) == 0);
    void* result;
    EXPECT(pthread_join(thread, &result) == 0);
    canceled += result == PTHREAD_CANCELED;
    own += result == (void*)5;
  }
  printf("canceled %d own %d cleaned %llu destroyed %llu\n", canceled, own,
         (unsigned long long)cleaned, (unsigned long long)destroyed);
}

static pthread_t expected_thread;
static _Atomic int in_right_thread;
static void on_signal(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  in_right_thread += pthread_equal(pthread_self(), expected_thread) != 0;
}
static void* take_signals(void* argument) {
  sem_post(argument);
  while (in_right_thread < 50) sched_yield();
  return NULL;
}

static void test_directed_signals(void) {
  install(SIGUSR1, on_signal, 0);
  sem_t started;
  sem_init(&started, 0, 0);
  EXPECT(pthread_create(&expected_thread, NULL, take_signals, &started) == 0);
  sem_wait(&started);
  for (int i = 0; i < 50; ++i) {
    EXPECT(pthread_kill(expected_thread, SIGUSR1) == 0);
    while (in_right_thread <= i) sched_yield();
  }
  pthread_join(expected_thread, NULL);
  printf("directed signals %d\n", in_right_thread);
}

static void* compute_forever(void* argument) {
  uint64_t hash = (uint64_t)(uintptr_t)argument;
  while (forever) hash = burn(hash, 100);
  return (void*)(uintptr_t)hash;
}
static void* outlive_main(void* argument) {
  pthread_join(*(pthread_t*)argument, NULL);
  printf("main has ended\n");
  exit(6);
}
static void* exec_echo(void* argument) {
  (void)argument;
  fflush(stdout);
  execl("/bin/echo", "echo", "from a thread", (char*)NULL);
  _exit(1);
}
static void* fault(void* argument) {
  (void)argument;
  volatile uintptr_t nowhere = 0;
  *(volatile char*)nowhere = 1;
  return NULL;
}

static void end_as(const char* how) {
  pthread_t threads[32], last;
  static pthread_t main_thread;
  main_thread = pthread_self();
  for (uintptr_t i = 0; i < 32; ++i)
    EXPECT(pthread_create(&threads[i], NULL, compute_forever, (void*)i) == 0);
  sleep_ms(20);
  fflush(stdout);
  if (strcmp(how, "return") == 0) return;
  if (strcmp(how, "exit_group") == 0) _exit(7);
  if (strcmp(how, "exec") == 0) EXPECT(pthread_create(&last, NULL, exec_echo, NULL) == 0);
  if (strcmp(how, "fault") == 0) EXPECT(pthread_create(&last, NULL, fault, NULL) == 0);
  if (strcmp(how, "main") == 0) {
    EXPECT(pthread_create(&last, NULL, outlive_main, &main_thread) == 0);
    pthread_exit(NULL);
  }
  for (;;) pause();
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "all") != 0) {
    end_as(argv[1]);
    return 8;
  }
  test_detached();
  test_cancel();
  test_directed_signals();
  return 0;
}
