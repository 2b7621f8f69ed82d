// SPDX-License-Identifier: MIT
//
// Signals that instructions raise, sent while they are blocked: they stay pending while
// handlers are entered on top of each other, and come when they are let in.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int faults[] = {SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGSYS};
#define FAULTS (sizeof faults / sizeof *faults)

static volatile unsigned long entered[NSIG];
static volatile unsigned long pending_in_handlers;

static unsigned long how_many_pending(void) {
  sigset_t set;
  unsigned long count = 0;
  sigpending(&set);
  for (size_t i = 0; i < FAULTS; i++) count += (unsigned long)sigismember(&set, faults[i]);
  return count;
}

static void note(int signal) {
  entered[signal]++;
  pending_in_handlers += how_many_pending();
}

// At addresses of many kinds: a handler that begins may be what the next one's frame returns to.
#define HANDLER(name) \
  __attribute__((aligned(256), noinline)) static void name(int signal) { note(signal); }
HANDLER(first)
HANDLER(second)
HANDLER(third)
HANDLER(fourth)
static void (*const handlers[])(int) = {first, second, third, fourth};

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = first;
  sigset_t blocked;
  sigemptyset(&blocked);
  for (size_t i = 0; i < FAULTS; i++) {
    sigaction(faults[i], &action, NULL);
    sigaddset(&blocked, faults[i]);
  }
  sigset_t others;
  sigemptyset(&others);
  for (int s = SIGRTMIN; s < SIGRTMIN + 6; s++) {
    action.sa_handler = handlers[s % 4];
    sigaction(s, &action, NULL);
    sigaddset(&others, s);
  }
  for (int round = 0; round < 40; round++) {
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigprocmask(SIG_BLOCK, &others, NULL);
    for (size_t i = 0; i < FAULTS; i++) {
      if (round % 2 == 0) {
        raise(faults[i]);
      } else {
        kill(getpid(), faults[i]);
      }
    }
    for (int s = SIGRTMIN; s < SIGRTMIN + 6; s++) raise(s);
    sigprocmask(SIG_UNBLOCK, &others, NULL);  // six handlers, each on top of the one before
    pending_in_handlers += how_many_pending();
    // What is blocked and ignored, by whoever sends it, is there when it is caught again.
    signal(SIGFPE, SIG_IGN);
    raise(SIGFPE);
    for (int s = SIGRTMIN; s < SIGRTMIN + 3; s++) raise(s);
    sigaction(SIGFPE, &action, NULL);
    pending_in_handlers += how_many_pending();
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  }
  unsigned long sum = 0;
  for (int s = 1; s < NSIG; s++) sum = sum * 31 + entered[s];
  printf("%lu %lu\n", sum, pending_in_handlers);
  for (size_t i = 0; i < FAULTS; i++) printf("%d: %lu\n", (int)i, entered[faults[i]]);
  return 0;
}
