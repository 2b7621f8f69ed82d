// SPDX-License-Identifier: MIT
//
// A program to be named: functions of all kinds of visibility, inlined calls several deep, a
// function that the compiler splits into hot and cold parts, aliases, stubs of a shared library,
// assembly without sizes. Built with debug information in several layouts.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace subject {

inline __attribute__((always_inline)) unsigned scramble(unsigned x) {
  return (x ^ 61u) * 9u + (x >> 16);
}

inline __attribute__((always_inline)) unsigned twice(unsigned x) {
  return scramble(scramble(x) + 1);
}

struct Worker {
  std::vector<unsigned> values;
  __attribute__((noinline)) unsigned total() const;
  __attribute__((noinline)) void add(unsigned value);
};

unsigned Worker::total() const {
  unsigned sum = 0;
  for (unsigned value : values) sum += twice(value);
  return sum;
}

void Worker::add(unsigned value) {
  if (value == 77) throw std::runtime_error("77 is not wanted");
  values.push_back(value);
}

template <typename T>
__attribute__((noinline)) T largest(const std::vector<T>& values) {
  T best{};
  for (const T& value : values) best = value > best ? value : best;
  return best;
}

// No other file can call it, so compilers give neither it nor its lambda a linkage name.
static inline __attribute__((always_inline)) unsigned with_lambda(unsigned x) {
  const auto mix = [](unsigned y) __attribute__((always_inline)) {
    return y * 7u + (y >> 3);
  };
  return mix(x);
}

}  // namespace subject

extern "C" {
__attribute__((noinline)) int _plain_reserved(int x) noexcept {
  return x * 3 + 1;
}
int plain(int x) noexcept __attribute__((alias("_plain_reserved")));
int plain_but_longer(int x) noexcept __attribute__((alias("_plain_reserved")));

int unsized_one(int x);
int unsized_two(int x);
}

// Two functions without .size or .type, each followed by the next thing.
asm(R"(
  .text
  .p2align 4
  .globl unsized_one
unsized_one:
  lea 1(%rdi), %eax
  ret
  nop
  nop
  .globl unsized_two
unsized_two:
  lea 2(%rdi), %eax
  ret
  .p2align 4
  .globl unsized_end
  .type unsized_end, @function
unsized_end:
  ret
  .size unsized_end, 1
)");

static __attribute__((noinline)) int local_helper(int x) {
  const unsigned mixed = subject::with_lambda(static_cast<unsigned>(x));
  return plain(x) ^ unsized_one(x) ^ static_cast<int>(mixed);
}

int main(int argc, char**) {
  subject::Worker worker;
  for (int i = 0; i < 50 * argc; ++i) worker.add(static_cast<unsigned>(local_helper(i)));
  std::printf("%u %u %d\n", worker.total(), subject::largest(worker.values), unsized_two(argc));
  return std::getenv("SUBJECT_FAILS") != nullptr ? 1 : 0;
}
