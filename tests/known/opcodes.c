// SPDX-License-Identifier: MIT
//
// An interpreter: a table of functions is called by opcodes of which the shares are known, 50, 25,
// 15 and 10 %. Prints how often each was called.
//
// usage: opcodes ROUNDS
#include "known.h"

uint64_t execute(uint64_t state, unsigned opcode);

static uint64_t counts[4];

static NOT_COPIED uint64_t op_add(uint64_t x) { counts[0]++; return x + 3; }
static NOT_COPIED uint64_t op_multiply(uint64_t x) { counts[1]++; return x * 5; }
static NOT_COPIED uint64_t op_rotate(uint64_t x) { counts[2]++; return x << 7 | x >> 57; }
static NOT_COPIED uint64_t op_negate(uint64_t x) { counts[3]++; return ~x; }

static uint64_t (*const volatile table[4])(uint64_t) = {op_add, op_multiply, op_rotate, op_negate};

NOT_COPIED uint64_t execute(uint64_t state, unsigned opcode) { return table[opcode](state) + 1; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 1000000);
  uint64_t random = 1, state = 1;
  for (uint64_t i = 0; i < rounds; i++) {
    const unsigned percent = (next_random(&random) >> 33) % 100;
    state = execute(state, percent < 50 ? 0 : percent < 75 ? 1 : percent < 90 ? 2 : 3);
  }
  printf("{\"calls\": [[\"main\", \"execute\", %llu]", (unsigned long long)rounds);
  const char *const names[4] = {"op_add", "op_multiply", "op_rotate", "op_negate"};
  for (int i = 0; i < 4; i++)
    printf(", [\"execute\", \"%s\", %llu]", names[i], (unsigned long long)counts[i]);
  printf("], \"targets\": {\"function\": \"execute\", \"counts\": [%llu, %llu, %llu, %llu]}, "
         "\"state\": %llu}\n",
         (unsigned long long)counts[0], (unsigned long long)counts[1],
         (unsigned long long)counts[2], (unsigned long long)counts[3], (unsigned long long)state);
  return 0;
}
