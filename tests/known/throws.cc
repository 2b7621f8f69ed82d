// SPDX-License-Identifier: MIT
//
// A function that throws in every third call, through another one, and members that are called by a
// virtual table, 75 and 25 %. Prints how often each was called.
//
// usage: throws ROUNDS
#include <memory>

#include "known.h"

struct Shape {
  virtual ~Shape() = default;
  virtual uint64_t area(uint64_t by) const = 0;
};
struct Square : Shape {
  NOT_COPIED uint64_t area(uint64_t by) const override { return by * by; }
};
struct Bar : Shape {
  NOT_COPIED uint64_t area(uint64_t by) const override { return by * 4; }
};

NOT_COPIED uint64_t thrower(uint64_t x) {
  if (x % 3 == 0) throw x;
  return x;
}
NOT_COPIED uint64_t between(uint64_t x) { return thrower(x) + 1; }
NOT_COPIED uint64_t area_of(const Shape &shape, uint64_t by) { return shape.area(by) + 1; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 1000);
  const std::unique_ptr<Shape> square = std::make_unique<Square>(), bar = std::make_unique<Bar>();
  uint64_t sum = 0, caught = 0, squares = 0, random = 1;
  for (uint64_t i = 0; i < rounds; i++) {
    const bool is_square = (next_random(&random) >> 33) % 4 != 0;
    squares += is_square;
    sum += area_of(is_square ? *square : *bar, i);
    if (i % 16 != 0) continue;
    try {
      sum += between(i / 16);
    } catch (uint64_t x) {
      caught += 1 + x % 2 * 0;
    }
  }
  const unsigned long long tries = (rounds + 15) / 16;
  std::printf(
      "{\"calls\": [[\"main\", \"area_of\", %llu], [\"area_of\", \"Square::area\", %llu], "
      "[\"area_of\", \"Bar::area\", %llu], [\"main\", \"between\", %llu], "
      "[\"between\", \"thrower\", %llu]], \"entered\": {\"thrower\": %llu, \"between\": %llu}, "
      "\"caught\": %llu, \"sum\": %llu}\n",
      (unsigned long long)rounds, (unsigned long long)squares,
      (unsigned long long)(rounds - squares), tries, tries, tries, tries,
      (unsigned long long)caught, (unsigned long long)sum);
  return 0;
}
