// SPDX-License-Identifier: MIT
//
// The program whose regression tests/gate/gate.py seeds: built once as it is, and once with
// REGRESSION, which makes parse() execute about 5 % more instructions and changes nothing else.
// Every other function is left alone, and parse() is a tenth of the program.
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

#define NOINLINE __attribute__((noinline))

NOINLINE uint64_t next_random(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

NOINLINE std::vector<char> make_text(size_t size) {
  std::vector<char> text;
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < size; i++)
    text.push_back(next_random(state) % 6 == 0 ? ' ' : static_cast<char>('a' + i % 26));
  return text;
}

NOINLINE size_t parse(const std::vector<char>& text) {
  size_t words = 0;
  for (int round = 0; round < 4; round++)
    for (char c : text)
      if (c == ' ') words++;
#ifdef REGRESSION
  for (size_t i = 0; i < text.size() / 6; i++) asm volatile("nop");
#endif
  return words / 4;
}

NOINLINE uint64_t hash(const std::vector<char>& text) {
  uint64_t sum = 0;
  for (int round = 0; round < 6; round++)
    for (char c : text) sum = sum * 31 + static_cast<unsigned char>(c);
  return sum;
}

NOINLINE uint64_t mix(uint64_t sum, size_t rounds) {
#ifdef ONE_MORE
  asm volatile("nop");
#endif
  for (size_t i = 0; i < rounds; i++) sum = (sum ^ (sum >> 29)) * 0xbf58476d1ce4e5b9u;
  return sum;
}

}  // namespace

int main() {
  const std::vector<char> text = make_text(20'000);
  std::printf("%zu words, %llu\n", parse(text),
              static_cast<unsigned long long>(mix(hash(text), 40'000)));
}
