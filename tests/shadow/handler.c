// SPDX-License-Identifier: MIT
//
// handler [SECONDS]: computes, most of the time within a signal handler, whose return must bring
// back every register. Two computations in step, in integer and vector registers each, are compared
// all the time; what does not agree is seen by the exit status, and by the name of what is called.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static volatile double in_handler;

__attribute__((noinline)) void registers_are_corrupted(void) {
  fputs("registers are corrupted\n", stderr);
  _exit(3);
}

__attribute__((noinline)) double handle_slowly(double start) {
  double a = start, b = 1 / start, c = 2, d = 3;
  for (int i = 0; i < 500000; i++) {
    a = a * 0.999999 + b;
    b = b * 0.999998 + c;
    c = c * 0.999997 + d;
    d = d * 0.999996 + a * 1e-9;
  }
  return a + b + c + d;
}

static void on_alarm(int signal) {
  (void)signal;
  in_handler = handle_slowly(1.5 + handled);
  handled++;
}

__attribute__((noinline)) void compute_in_step(uint64_t rounds) {
  uint64_t a = 1, b = 1;
  double x = 1, y = 1;
  for (uint64_t i = 0; i < rounds; i++) {
    a = a * 6364136223846793005u + 1;
    x = x * 1.0000001 + 1e-7;
    __asm__ volatile("" : "+r"(a), "+x"(x));
    b = b * 6364136223846793005u + 1;
    y = y * 1.0000001 + 1e-7;
    __asm__ volatile("" : "+r"(b), "+x"(y));
    if (a != b || x != y) registers_are_corrupted();
  }
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 2;
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 20000}, {0, 20000}};
  setitimer(ITIMER_REAL, &often, NULL);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    compute_in_step(200000);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) < seconds);
  puts(handled > 0 ? "done" : "no signal came");
  return 0;
}
