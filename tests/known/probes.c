// SPDX-License-Identifier: MIT
//
// Divisions, arguments, loads, stores, atomic additions and computed calls whose numbers are known,
// from callers that are known. Prints them.
//
// usage: probes ROUNDS
#include "known.h"

#define TABLE 64

static volatile uint64_t table[TABLE];
static uint64_t counters[2];

uint64_t scale(uint64_t x, uint64_t by);
uint64_t near(uint64_t x);
uint64_t far(uint64_t x);
uint64_t read_at(uint64_t at);
void write_at(uint64_t at, uint64_t value);
void bump(uint64_t which);
uint64_t depth(uint64_t n);
uint64_t even(uint64_t x);
uint64_t odd(uint64_t x);
uint64_t choose(uint64_t x);

NOT_COPIED uint64_t scale(uint64_t x, uint64_t by) { return x / by; }
NOT_COPIED uint64_t near(uint64_t x) { return scale(x, 8) + 1; }
NOT_COPIED uint64_t far(uint64_t x) { return scale(x, x % 2 ? 10 : 7) + 2; }
NOT_COPIED uint64_t read_at(uint64_t at) { return table[at]; }
NOT_COPIED void write_at(uint64_t at, uint64_t value) { table[at] = value; }
NOT_COPIED void bump(uint64_t which) { __atomic_fetch_add(&counters[which], 1, __ATOMIC_SEQ_CST); }
NOT_COPIED uint64_t depth(uint64_t n) { return n == 0 ? 0 : depth(n - 1) + 1; }
NOT_COPIED uint64_t even(uint64_t x) { return x + 3; }
NOT_COPIED uint64_t odd(uint64_t x) { return x + 4; }
static uint64_t (*const volatile both[2])(uint64_t) = {even, odd};
NOT_COPIED uint64_t choose(uint64_t x) { return both[x % 2](x) + 1; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 100000);
  uint64_t sum = 0, nears = 0, sevens = 0, tens = 0, firsts = 0, odds = 0;
  for (uint64_t i = 0; i < TABLE; i++) table[i] = 100 + i % 4;
  for (uint64_t i = 0; i < rounds; i++) {
    if (i % 3 == 0) {
      nears++;
      sum += near(i);
    } else {
      *(i % 2 ? &tens : &sevens) += 1;
      sum += far(i);
    }
    sum += read_at(i % TABLE);
    write_at(i % TABLE, 100 + i % 4);
    firsts += i % 5 == 0;
    bump(i % 5 != 0);
    odds += i % 2;
    sum += choose(i);
    sum += depth(i % 8);
  }
  printf("{\"rounds\": %llu, \"near\": %llu, \"by 7\": %llu, \"by 10\": %llu, \"first\": %llu, "
         "\"odd\": %llu, \"sum\": %llu}\n",
         (unsigned long long)rounds, (unsigned long long)nears, (unsigned long long)sevens,
         (unsigned long long)tens, (unsigned long long)firsts, (unsigned long long)odds,
         (unsigned long long)sum);
  return 0;
}
