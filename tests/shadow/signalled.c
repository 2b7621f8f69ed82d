// SPDX-License-Identifier: MIT
//
// usage: signalled SECONDS
// Threads that are sent signals all the time: one counts queued signals, which come in order; one
// sleeps, and is woken by each; one faults, and its handler goes on elsewhere. Prints how many
// there were of all, and ends with 1 and a sentence where something is not as it must be.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_int is_over;
static atomic_int received, woken, faulted;
static pthread_t counter, sleeper, faulter;
static sigjmp_buf behind_fault;

static void complain(const char* what) {
  printf("%s\n", what);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void take_next(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  if (!pthread_equal(pthread_self(), counter)) complain("a signal came to another thread");
  if (info->si_code != SI_QUEUE || info->si_value.sival_int != received)
    complain("a signal was lost, or another came");
  received++;
}

static void wake(int signal) {
  (void)signal;
}

static void leave_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  if (info->si_addr != (void*)16) complain("a fault has another address");
  siglongjmp(behind_fault, 1);
}

static void* count(void* unused) {
  while (!is_over) __asm__ volatile("");
  return unused;
}

static void* sleep_on(void* unused) {
  while (!is_over) {
    struct timespec left = {100, 0};
    if (nanosleep(&left, &left) == 0 || errno != EINTR) complain("a sleep went on");
    if (left.tv_sec > 100) complain("more was left than there had been");
    woken++;
  }
  return unused;
}

static void* fault(void* unused) {
  while (!is_over) {
    if (sigsetjmp(behind_fault, 1) == 0) *(volatile int*)16 = 1;
    faulted++;
    usleep(1000);
  }
  return unused;
}

int main(int argc, char** argv) {
  const double end = now() + (argc > 1 ? atof(argv[1]) : 1);
  struct sigaction action = {.sa_sigaction = take_next, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  action.sa_sigaction = leave_fault;
  sigaction(SIGSEGV, &action, NULL);
  struct sigaction plain = {.sa_handler = wake};
  sigaction(SIGUSR2, &plain, NULL);
  pthread_create(&counter, NULL, count, NULL);
  pthread_create(&sleeper, NULL, sleep_on, NULL);
  pthread_create(&faulter, NULL, fault, NULL);
  int sent = 0;
  while (now() < end) {
    usleep(1000);
    if (pthread_sigqueue(counter, SIGRTMIN, (union sigval){.sival_int = sent}) == 0) sent++;
    pthread_kill(sleeper, SIGUSR2);
  }
  const double patience_ends = now() + 20;
  while (received < sent && now() < patience_ends) usleep(1000);
  if (received != sent) complain("signals were sent that never came");
  is_over = 1;
  pthread_kill(sleeper, SIGUSR2);
  pthread_join(counter, NULL);
  pthread_join(faulter, NULL);
  printf("%d\n", received + woken + faulted);
  return 0;
}
