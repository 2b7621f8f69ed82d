// SPDX-License-Identifier: MIT
//
// Is in system calls nearly always, until it is killed: a long one with little work behind it, and
// then seven short ones with seven times as much behind each. So 98 % of its instructions are in
// work_behind_short_call(), and nearly all of its time is before work_behind_long_call().
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#define NOT_COPIED __attribute__((noinline))

enum { kRounds = 60, kShortCalls = 7 };

static NOT_COPIED uint64_t work_behind_long_call(uint64_t x) {
  for (int i = 0; i < kRounds; i++) x = (x ^ x >> 9) * 5 + (uint64_t)i;
  return x;
}

static NOT_COPIED uint64_t work_behind_short_call(uint64_t x) {
  for (int i = 0; i < 7 * kRounds; i++) x = (x ^ x >> 7) * 3 + (uint64_t)i;
  return x;
}

static char zeros[1 << 16];

int main(void) {
  const int zero = open("/dev/zero", O_RDONLY);
  volatile uint64_t x = 1;
  while (read(zero, zeros, sizeof zeros) == sizeof zeros) {
    x = work_behind_long_call(x);
    for (int i = 0; i < kShortCalls; i++) {
      (void)getppid();
      x = work_behind_short_call(x);
    }
  }
  return 1;
}
