// SPDX-License-Identifier: MIT
//
// One function does all the work, for two callers: three times as much for the first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

volatile uint64_t sink;

__attribute__((noinline)) void shared(unsigned rounds) {
  uint64_t x = 88172645463325252;
  for (unsigned i = 0; i < rounds; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  sink = sink + x;
}

__attribute__((noinline)) void outer_more(unsigned rounds) {
  for (int i = 0; i < 3; i++) shared(rounds);
  sink = sink + 1;
}

__attribute__((noinline)) void outer_less(unsigned rounds) {
  shared(rounds);
  sink = sink + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::atoi(argv[1]) : 100;
  for (int i = 0; i < times; i++) {
    outer_more(10'000);
    outer_less(10'000);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sink));
}
