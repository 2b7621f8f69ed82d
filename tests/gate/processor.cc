// SPDX-License-Identifier: MIT
//
// Says what processor it is told to run on: gate.py runs it with --cpu-features baseline.
#include <cpuid.h>

#include <cstdio>
#include <cstring>

int main() {
  __builtin_cpu_init();
  std::printf("ssse3 %d, sse4.2 %d, popcnt %d, avx %d, avx2 %d, avx512f %d, bmi2 %d\n",
              __builtin_cpu_supports("ssse3") != 0, __builtin_cpu_supports("sse4.2") != 0,
              __builtin_cpu_supports("popcnt") != 0, __builtin_cpu_supports("avx") != 0,
              __builtin_cpu_supports("avx2") != 0, __builtin_cpu_supports("avx512f") != 0,
              __builtin_cpu_supports("bmi2") != 0);
  unsigned brand[12] = {};
  for (unsigned i = 0; i < 3; i++)
    __get_cpuid(0x80000002 + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2],
                &brand[4 * i + 3]);
  char text[sizeof brand + 1] = {};
  std::memcpy(text, brand, sizeof brand);
  std::printf("%s\n", text);
}
