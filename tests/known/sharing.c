// SPDX-License-Identifier: MIT
//
// Two threads whose cache lines are known: counters side by side in one line, the same counters 64
// bytes apart, one counter of both, an atomic one, one that the first writes and the second reads,
// and what the first thread filled before the second was made. Each is a loop of three
// instructions, which both threads enter together. Prints which instructions share a line, by the
// functions that they are in, how many instructions each loop has and which bytes of the line are
// accessed.
//
// usage: sharing ROUNDS
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "known.h"

enum { kLine = 64, kFilled = 64 };

static _Alignas(4096) unsigned char lines[64 * kLine];
static _Alignas(kLine) atomic_int here;
static uint64_t rounds;

#define LOOP(name, instruction)                                                        \
  void name(void *at, uint64_t times);                                                 \
  NOT_COPIED void name(void *at, uint64_t times) {                                     \
    __asm__ volatile("1: " instruction "\n dec %1\n jnz 1b"                            \
                     : "+r"(at), "+r"(times)                                           \
                     :                                                                 \
                     : "memory", "rax");                                               \
  }

LOOP(left_of_line, "addq $1, (%0)")
LOOP(right_of_line, "addq $1, (%0)")
LOOP(left_apart, "addq $1, (%0)")
LOOP(right_apart, "addq $1, (%0)")
LOOP(one_of_both, "addl $1, (%0)")
LOOP(atomic_of_both, "lock addq $1, (%0)")
LOOP(writes_it, "movl %%eax, (%0)")
LOOP(reads_it, "movq (%0), %%rax")
LOOP(reads_beside, "movb (%0), %%al")

// Without a system call: a thread that waits in the kernel may come back when the other is through.
static NOT_COPIED void meet(void) {
  const int phase = atomic_fetch_add(&here, 1) / 2;
  while (atomic_load(&here) / 2 <= phase) __builtin_ia32_pause();
}

static NOT_COPIED void fill(unsigned char *at) { memset(at, 1, kFilled * 8); }
static NOT_COPIED uint64_t sum_up(const unsigned char *at) {
  uint64_t sum = 0;
  for (int i = 0; i < kFilled; i++) sum += at[8 * i];
  return sum;
}

static void work(int which) {
  unsigned char *line = lines;
  meet();
  if (which == 0) left_of_line(line, rounds);
  else right_of_line(line + 8, rounds);
  meet();
  line += 4 * kLine;
  if (which == 0) left_apart(line, rounds);
  else right_apart(line + kLine, rounds);
  meet();
  line += 4 * kLine;
  one_of_both(line + 16, rounds);
  meet();
  line += 4 * kLine;
  atomic_of_both(line + 24, rounds);
  meet();
  line += 4 * kLine;
  if (which == 0) writes_it(line + 32, rounds);
  else reads_it(line + 32, rounds);
  meet();
  line += 4 * kLine;
  if (which == 0) writes_it(line + 40, rounds);
  else reads_beside(line + 63, rounds);
  meet();
}

static NOT_COPIED void *second(void *sum) {
  *(uint64_t *)sum = sum_up(lines + 40 * kLine);
  work(1);
  return NULL;
}

int main(int argc, char **argv) {
  rounds = number_of(argc, argv, 1, 100000);
  uint64_t sum = 0;
  pthread_t thread;
  fill(lines + 40 * kLine);
  if (pthread_create(&thread, NULL, second, &sum)) return 1;
  work(0);
  pthread_join(thread, NULL);
  uint64_t both;
  memcpy(&both, lines + 12 * kLine + 24, sizeof both);
  printf("{\"sharing\": ["
         "[\"false_sharing\", \"left_of_line\", \"right_of_line\", [0, 8], [8, 16]], "
         "[\"true_sharing\", \"one_of_both\", \"one_of_both\", [16, 20], [16, 20]], "
         "[\"true_sharing\", \"atomic_of_both\", \"atomic_of_both\", [24, 32], [24, 32]], "
         "[\"true_sharing\", \"writes_it\", \"reads_it\", [32, 36], [32, 40]], "
         "[\"false_sharing\", \"writes_it\", \"reads_beside\", [40, 44], [63, 64]]], "
         "\"instructions\": %llu, "
         "\"unshared\": [\"left_apart\", \"right_apart\", \"fill\", \"sum_up\"], "
         "\"sum\": %llu}\n",
         (unsigned long long)(3 * rounds), (unsigned long long)(sum + both));
  return sum != kFilled || both != 2 * rounds;
}
