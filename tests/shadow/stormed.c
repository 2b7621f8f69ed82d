// SPDX-License-Identifier: MIT
//
// usage: stormed handled|ignored
// A timer expires every 10 us while the program computes and makes calls. Ends with 1 and a
// sentence if its signal mask is not its own; else prints a sum that is always the same.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void complain(const char* what) {
  printf("%s\n", what);
  exit(1);
}

static void count(int signal) {
  (void)signal;
  handled++;
}

// SIGUSR1 is what the program blocks itself.
static void look_at_mask(void) {
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  for (int signal = 1; signal < 32; signal++)
    if (sigismember(&mask, signal) != (signal == SIGUSR1)) complain("the mask is another one");
}

static unsigned compute(unsigned sum) {
  for (int i = 0; i < 2000; i++) sum = sum * 1664525 + 1013904223;
  return sum;
}

static void expire_every(int us) {
  const struct itimerval timer = {{0, us}, {0, us}};
  if (setitimer(ITIMER_REAL, &timer, NULL) != 0) complain("no timer");
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  struct sigaction action = {0};
  const int is_handled = strcmp(argv[1], "handled") == 0;
  action.sa_handler = is_handled ? count : SIG_IGN;
  sigaction(SIGALRM, &action, NULL);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  unsigned sum = 1;
  for (int round = 0; round < 20; round++) {
    expire_every(10);
    for (int part = 0; part < 10; part++) {
      sum = compute(sum);
      look_at_mask();
    }
    expire_every(0);
  }
  if (is_handled != (handled > 0)) complain("the handler ran without a reason, or never");
  printf("%u\n", sum);
  return 0;
}
