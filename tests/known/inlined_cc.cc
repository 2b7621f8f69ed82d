// SPDX-License-Identifier: MIT
//
// As inlined.c, with what C++ has of functions: members, templates, overloads, lambdas, functions
// without a name for the linker. Usage: THOUSANDS of rounds. Prints how many instructions each has
// executed.
#include <cstdio>
#include <cstdlib>

#define ALWAYS __attribute__((always_inline)) inline
#define INSTRUCTIONS(n) __asm__ volatile(".rept " #n "\n\tnop\n\t.endr")

namespace known {

struct Counter {
  ALWAYS void add(int) { INSTRUCTIONS(6); }
  ALWAYS void add(double) { INSTRUCTIONS(9); }
  template <int kWide>
  ALWAYS void widen() {
    if (kWide == 2) INSTRUCTIONS(4);
    add(kWide);
  }
};

namespace {
ALWAYS void hidden() {
  INSTRUCTIONS(8);
}
}  // namespace

}  // namespace known

__attribute__((noinline)) static void run(long rounds) {
  known::Counter counter;
  const auto lambda = []() __attribute__((always_inline)) { INSTRUCTIONS(11); };
  for (long i = 0; i < rounds; i++) {
    counter.add(1);
    counter.add(1.0);
    counter.widen<2>();
    known::hidden();
    lambda();
  }
}

int main(int argc, char** argv) {
  const long rounds = 1000 * (argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1);
  run(rounds);
  std::printf(
      "{\"add(int)\": %ld, \"add(double)\": %ld, \"widen\": %ld, \"hidden\": %ld, \"lambda\": "
      "%ld}\n",
      12 * rounds, 9 * rounds, 4 * rounds, 8 * rounds, 11 * rounds);
  return 0;
}
