// SPDX-License-Identifier: MIT
//
// Functions that are reached by a jump at the end of another one, one that is left by longjmp, and
// handlers of signals: how often each is entered is known.
//
// usage: tails ROUNDS
#include <setjmp.h>
#include <signal.h>

#include "known.h"

uint64_t first(uint64_t x);
uint64_t last(uint64_t x);
void leave(uint64_t x);
void on_signal(int signal);

static jmp_buf home;
static volatile uint64_t left, signals;

NOT_COPIED uint64_t last(uint64_t x) { return x * 3 + 1; }

// The jump is written by hand: whether compilers make one is their affair.
__asm__(
    ".text\n.globl first\n.type first, @function\nfirst:\n"
    "  lea 5(%rdi), %rdi\n"
    "  jmp last\n"
    ".size first, .-first\n");

NOT_COPIED void leave(uint64_t x) {
  if (x % 2 == 0) longjmp(home, 1);
  left++;
}

NOT_COPIED void on_signal(int signal) {
  (void)signal;
  signals++;
}

int main(int argc, char **argv) {
  static volatile uint64_t rounds, i, jumps, sum;  // longjmp leaves them as they are
  rounds = number_of(argc, argv, 1, 1000);
  signal(SIGUSR1, on_signal);
  for (i = 0; i < rounds; i++) {
    sum = sum + first(i);
    if (i % 100 == 0) raise(SIGUSR1);
    if (setjmp(home))
      jumps = jumps + 1;
    else
      leave(i);
  }
  printf("{\"calls\": [[\"main\", \"first\", %llu], [\"main\", \"leave\", %llu]], "
         "\"entered\": {\"first\": %llu, \"last\": %llu, \"leave\": %llu, \"on_signal\": %llu}, "
         "\"jumps\": %llu, \"sum\": %llu}\n",
         (unsigned long long)rounds, (unsigned long long)rounds, (unsigned long long)rounds,
         (unsigned long long)rounds, (unsigned long long)rounds, (unsigned long long)signals,
         (unsigned long long)jumps, (unsigned long long)sum);
  return 0;
}
