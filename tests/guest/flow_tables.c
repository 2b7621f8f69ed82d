// SPDX-License-Identifier: MIT
//
// Jumps and calls through tables: switch, computed goto (a small interpreter), 5,000 functions,
// very long blocks, tail calls, mutual recursion and recursion 100,000 frames deep.
#include "guest.h"

enum { kManyFunctions = 5000 };
typedef uint64_t Function(uint64_t);
extern Function* const many_functions[kManyFunctions];
Function long_block, tail_chain;

static uint64_t dispatch(uint64_t x) {
  switch (x % 23) {
    case 0:
      return x * 3;
    case 1:
      return x ^ 0x55;
    case 2:
      return x << 3;
    case 3:
      return x >> 1;
    case 4:
      return x + 17;
    case 5:
      return ~x;
    case 6:
      return x * x;
    case 7:
      return x - 9;
    case 8:
      return x | 0x1001;
    case 9:
      return x & ~0xffu;
    case 10:
      return x * 5 + 1;
    case 11:
      return x / 7;
    case 13:
      return x % 1001;
    case 17:
      return x ^ x >> 9;
    case 19:
      return x + (x << 5);
    case 22:
      return 12345;
    default:
      return x + 1;
  }
}

// A byte-code machine with one indirect jump at the end of every operation.
static uint64_t interpret(const unsigned char* code, uint64_t value) {
  static const void* const kOperations[] = {&&add, &&multiply, &&shift, &&mixing, &&loop, &&end};
  uint64_t loops = 0;
  const unsigned char* pc = code;
  goto* kOperations[*pc++];
add:
  value += 3;
  goto* kOperations[*pc++];
multiply:
  value *= 0x10001;
  goto* kOperations[*pc++];
shift:
  value ^= value >> 7;
  goto* kOperations[*pc++];
mixing:
  value = mix(value, loops);
  goto* kOperations[*pc++];
loop:
  if (++loops < 20000) pc = code;
  goto* kOperations[*pc++];
end:
  return value;
}

__attribute__((noinline)) static uint64_t deep(uint64_t n) {
  if (n == 0) return 1;
  const uint64_t below = deep(n - 1);
  return mix(below, n);
}

__attribute__((noinline)) static int is_odd(unsigned n);
__attribute__((noinline)) static int is_even(unsigned n) {
  return n == 0 ? 1 : is_odd(n - 1);
}
__attribute__((noinline)) static int is_odd(unsigned n) {
  return n == 0 ? 0 : is_even(n - 1);
}

__attribute__((noinline)) static uint64_t fibonacci(uint64_t n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int compare(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

int main(void) {
  uint64_t x = 1;
  for (int i = 0; i < 200000; ++i) x = mix(dispatch(x), i);
  printf("switch %016llx\n", (unsigned long long)x);

  static const unsigned char kProgram[] = {0, 1, 2, 3, 0, 0, 2, 1, 4, 5};
  printf("computed goto %016llx\n", (unsigned long long)interpret(kProgram, 42));

  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kManyFunctions; ++i) x = mix(x, many_functions[i](x));
    for (int i = 0; i < 20000; ++i) x = many_functions[next_random(&x) % kManyFunctions](x);
  }
  printf("5000 functions %016llx\n", (unsigned long long)x);
  for (int i = 0; i < 1000; ++i) x = tail_chain(long_block(x));
  printf("long blocks %016llx\n", (unsigned long long)x);
  printf("deep %016llx\n", (unsigned long long)deep(100000));
  printf("even %d odd %d\n", is_even(100000), is_odd(100000));
  printf("fibonacci %llu\n", (unsigned long long)fibonacci(27));

  static uint64_t sorted[20000];
  for (int i = 0; i < 20000; ++i) sorted[i] = next_random(&x);
  qsort(sorted, 20000, sizeof(sorted[0]), compare);
  for (int i = 1; i < 20000; ++i) EXPECT(sorted[i - 1] <= sorted[i]);
  printf("sorted %016llx\n", (unsigned long long)mix_bytes(1, sorted, sizeof(sorted)));
  return 0;
}
