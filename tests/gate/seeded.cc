// SPDX-License-Identifier: MIT
//
// Three regressions, each in a function of its own: built once as it is, and once with REGRESSION.
// Then parse() executes about 5 % more instructions; classify() takes one of its two ways more
// often, which are equally long; and a load of look_up() finds its data spread over memory instead
// of in the first level cache. The other functions stay as they are.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

#define NOINLINE __attribute__((noinline))

#ifdef REGRESSION
constexpr unsigned kOdd = 12;
constexpr uint32_t kTableMask = (8u << 20) - 1;
#else
constexpr unsigned kOdd = 8;
constexpr uint32_t kTableMask = 1023;
#endif

NOINLINE uint32_t next_random(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

NOINLINE std::vector<unsigned char> make_text(size_t size) {
  std::vector<unsigned char> text;
  uint32_t state = 7;
  for (size_t i = 0; i < size; i++) text.push_back(static_cast<unsigned char>(next_random(state)));
  return text;
}

NOINLINE size_t parse(const std::vector<unsigned char>& text) {
  size_t words = 0;
  for (int round = 0; round < 4; round++)
    for (unsigned char c : text)
      if (c < 40) words++;
#ifdef REGRESSION
  for (size_t i = 0; i < text.size() / 10; i++) asm volatile("nop");
#endif
  return words / 4;
}

// The two ways differ in a constant only.
NOINLINE uint64_t classify(const std::vector<unsigned char>& text, unsigned odd) {
  uint64_t sum = 0;
  for (unsigned char c : text) {
    if (c % 16u < odd) {
      asm volatile("addq $3, %0" : "+r"(sum));
      asm volatile("nop; nop; nop; nop; nop; nop; nop; nop");
    } else {
      asm volatile("addq $5, %0" : "+r"(sum));
      asm volatile("nop; nop; nop; nop; nop; nop; nop; nop");
    }
  }
  return sum;
}

NOINLINE uint64_t look_up(const uint32_t* table, uint32_t mask) {
  uint64_t sum = 0;
  uint32_t state = 99;
  for (int i = 0; i < 40'000; i++) {
    state = state * 1664525u + 1013904223u;
    sum += table[(state >> 4) & mask];
  }
  return sum;
}

NOINLINE uint64_t mix(uint64_t sum, size_t rounds) {
  for (size_t i = 0; i < rounds; i++) sum = (sum ^ (sum >> 29)) * 0xbf58476d1ce4e5b9u;
  return sum;
}

}  // namespace

int main() {
  const std::vector<unsigned char> text = make_text(20'000);
  constexpr size_t kWords = 8u << 20;
  const std::unique_ptr<uint32_t[]> table(new uint32_t[kWords]);
  for (size_t i = 0; i < kWords; i += 1024) table[i] = static_cast<uint32_t>(i);
  const uint64_t sum = parse(text) + classify(text, kOdd) + look_up(table.get(), kTableMask);
  std::printf("%llu\n", static_cast<unsigned long long>(mix(sum, 100'000)));
}
