// SPDX-License-Identifier: MIT
//
// Functions that are always inlined, of known lengths: `small` is 10 instructions, `large` 12 and a
// `small` between them, `calling` 3 and a call of `leaf`, which is 20 and its return. `both` is 6,
// and is called once in each thousand rounds, too. These are always the same mix. Usage: THOUSANDS
// of rounds. Prints how many instructions each has executed.
#include <stdio.h>
#include <stdlib.h>

#define INLINED static inline __attribute__((always_inline)) void
#define INSTRUCTIONS(n) __asm__ volatile(".rept " #n "\n\tnop\n\t.endr")

__attribute__((noinline)) static void leaf(void) {
  INSTRUCTIONS(20);
}

INLINED small(void) {
  INSTRUCTIONS(10);
}

INLINED large(void) {
  INSTRUCTIONS(7);
  small();  // within large
  INSTRUCTIONS(5);
}

INLINED calling(void) {
  INSTRUCTIONS(3);
  leaf();
}

INLINED both(void) {
  INSTRUCTIONS(6);
}
static void (*volatile const called)(void) = both;

__attribute__((noinline)) static void first(long rounds) {
  for (long i = 0; i < rounds; i++) large();
}

__attribute__((noinline)) static void second(long rounds) {
  for (long i = 0; i < 4 * rounds; i++) small();
  for (long i = 0; i < rounds; i++) large();
}

__attribute__((noinline)) static void third(long rounds) {
  for (long i = 0; i < rounds; i++) {
    calling();
    both();
  }
}

int main(int argc, char** argv) {
  const long thousands = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  for (long i = 0; i < thousands; i++) {
    first(1000);
    second(1000);
    third(1000);
    called();
  }
  const long rounds = 1000 * thousands;
  const long larges = 2 * rounds, smalls = larges + 4 * rounds;
  printf(
      "{\"small\": %ld, \"large\": %ld, \"calling\": %ld, \"leaf\": %ld, \"in_large\": %ld, "
      "\"both\": %ld}\n",
      10 * smalls, 12 * larges, 4 * rounds, 21 * rounds, 10 * larges, 6 * rounds);
  return 0;
}
