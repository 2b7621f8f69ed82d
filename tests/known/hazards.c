// SPDX-License-Identifier: MIT
//
// Loads and stores of which it is known what they do to one another, by functions of one access
// each. Prints how often.
//
// usage: hazards ROUNDS
#include <string.h>

#include "known.h"

static _Alignas(4096) unsigned char data[4 * 4096];

#define STORE(name, type, instruction)                                    \
  void name(void *to, uint64_t what);                                     \
  NOT_COPIED void name(void *to, uint64_t what) {                         \
    __asm__ volatile(instruction : : "r"((type)what), "r"(to) : "memory"); \
  }
#define LOAD(name, type, instruction)                                      \
  type name(const void *from);                                             \
  NOT_COPIED type name(const void *from) {                                 \
    type got;                                                              \
    __asm__ volatile(instruction : "=r"(got) : "r"(from) : "memory");      \
    return got;                                                            \
  }

STORE(store_byte, uint8_t, "movb %0, (%1)")
STORE(store_word, uint32_t, "movl %0, (%1)")
LOAD(load_word, uint32_t, "movl (%1), %0")
STORE(store_here, uint64_t, "movq %0, (%1)")
STORE(store_page_behind, uint64_t, "movq %0, (%1)")
LOAD(load_here, uint64_t, "movq (%1), %0")
LOAD(load_anywhere, uint64_t, "movq (%1), %0")
STORE(store_first, uint64_t, "movq %0, (%1)")
STORE(store_over, uint64_t, "movq %0, (%1)")
LOAD(look_between, uint64_t, "movq (%1), %0")
LOAD(load_first, uint64_t, "movq (%1), %0")
LOAD(load_again, uint64_t, "movq (%1), %0")
STORE(store_between, uint64_t, "movq %0, (%1)")

// Half a page from where the stack is in its own, so that its stores alias nothing of this.
static unsigned char *away_from_stack(void) {
  return data + (((uintptr_t)__builtin_frame_address(0) + 2048) & 4095 & ~(uintptr_t)511);
}

static uint64_t round_of(uint64_t i, unsigned char *word) {
  unsigned char *here = word + 64, *lines = word + 128, *slot = word + 256, *again = word + 320;
  uint64_t sum = 0;
  // One in four loads takes a byte that was just stored and three that were not.
  if (i % 4 == 0)
    store_byte(word, i);
  else
    store_word(word, i);
  sum += load_word(word);
  // One in two comes behind a store a page further on.
  if (i % 2 == 0)
    store_page_behind(here + 4096, i);
  else
    store_here(here, i);
  sum += load_here(here);
  // 7 of 64 offsets make it cross a line.
  sum += load_anywhere(lines + i % 64);
  // One in four is overwritten before it is looked at.
  store_first(slot, i);
  if (i % 4 != 0) sum += look_between(slot);
  store_over(slot, i + 1);
  // One in two finds what was there before.
  sum += load_first(again);
  if (i % 2 == 0) store_between(again, i);
  sum += load_again(again);
  return sum;
}

static void print(const char *kind, const char *from, const char *to, uint64_t count,
                  uint64_t executions, const char *behind) {
  printf("[\"%s\", \"%s\", \"%s\", %llu, %llu]%s", kind, from, to, (unsigned long long)count,
         (unsigned long long)executions, behind);
}

int main(int argc, char **argv) {
  const uint64_t n = number_of(argc, argv, 1, 20000);
  unsigned char *word = away_from_stack();
  memset(data, 0xff, sizeof data);  // what no store stores first
  uint64_t sum = 0, split = 0;
  for (uint64_t i = 0; i < n; i++) {
    sum += round_of(i, word);
    split += i % 64 > 64 - 8;
  }
  printf("{\"memory\": [");
  print("forwarding", "store_byte", "load_word", (n + 3) / 4, n, ", ");
  print("aliasing", "store_page_behind", "load_here", (n + 1) / 2, n, ", ");
  print("load_line_split", "load_anywhere", "load_anywhere", split, n, ", ");
  print("dead_store", "store_first", "store_over", (n + 3) / 4, n, ", ");
  print("dead_store", "store_over", "store_first", n - 1, n, ", ");
  print("dead_store", "store_page_behind", "store_page_behind", (n + 1) / 2 - 1, (n + 1) / 2, ", ");
  print("silent_store", "store_first", "store_first", n - 1, n, ", ");
  print("redundant_load", "load_here", "load_here", (n + 1) / 2 - 1, n, ", ");
  print("redundant_load", "load_first", "load_again", n / 2, n, ", ");
  print("redundant_load", "load_again", "load_first", n - 1, n, "], ");
  printf("\"sum\": %llu}\n", (unsigned long long)sum);
  return 0;
}
