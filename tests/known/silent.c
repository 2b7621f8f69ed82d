// SPDX-License-Identifier: MIT
//
// Stores of what is there already in a known part of their executions, by functions of one store
// each. Prints how often.
//
// usage: silent ROUNDS
#include "known.h"

static _Alignas(64) unsigned char data[1024];

#define STORE(name, type, instruction)                                    \
  void name(void *to, uint64_t what);                                     \
  NOT_COPIED void name(void *to, uint64_t what) {                         \
    __asm__ volatile(instruction : : "r"((type)what), "r"(to) : "memory", "cc"); \
  }

STORE(move_eight, uint64_t, "movq %0, (%1)")
STORE(move_four, uint32_t, "movl %0, (%1)")
STORE(move_two, uint16_t, "movw %0, (%1)")
STORE(move_constant, uint64_t, "movl $7, (%1)")
STORE(set_bits, uint64_t, "orq %0, (%1)")
STORE(clear_bits, uint64_t, "andq %0, (%1)")
STORE(add_some, uint64_t, "addq %0, (%1)")

void move_high(void *to, uint64_t what);
NOT_COPIED void move_high(void *to, uint64_t what) {
  __asm__ volatile("movb %%ah, (%1)" : : "a"(what << 8), "c"(to) : "memory");
}

static void print(const char *function, uint64_t count, uint64_t executions, const char *behind) {
  printf("[\"silent_store\", \"%s\", \"%s\", %llu, %llu]%s", function, function,
         (unsigned long long)count, (unsigned long long)executions, behind);
}

int main(int argc, char **argv) {
  const uint64_t n = number_of(argc, argv, 1, 20000) / 12 * 12;
  for (uint64_t i = 0; i < n; i++) {
    move_eight(data, i / 2 + 1);         // each second one
    move_four(data + 64, i / 3 + 1);     // two in three
    move_two(data + 128, i + 1);         // none
    move_high(data + 192, i / 4 % 2 + 1);  // three in four
    data[256] = i % 4 == 0 ? 9 : 7;
    move_constant(data + 256, i);        // three in four
    if (i % 4 == 0) *(volatile uint64_t *)(data + 320) = 0;
    set_bits(data + 320, 8);             // three in four
    if (i % 3 == 0) *(volatile uint64_t *)(data + 384) = 5;
    clear_bits(data + 384, 4);           // two in three
    add_some(data + 448, i % 2);         // each second one
  }
  printf("{\"memory\": [");
  print("move_eight", n / 2, n, ", ");
  print("move_four", n / 3 * 2, n, ", ");
  print("move_high", n / 4 * 3, n, ", ");
  print("move_constant", n / 4 * 3, n, ", ");
  print("set_bits", n / 4 * 3, n, ", ");
  print("clear_bits", n / 3 * 2, n, ", ");
  print("add_some", n / 2, n, "], ");
  printf("\"kinds\": [\"silent_store\"], \"sum\": %u}\n",
         data[0] + data[64] + data[192] + data[320] + data[448]);
  return 0;
}
