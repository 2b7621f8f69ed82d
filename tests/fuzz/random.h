// SPDX-License-Identifier: MIT
//
// A small generator of random numbers whose sequence is ours for ever: a failing seed must give
// the same case on every machine and with every library.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace shadowprof::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0xda942042e4dd58b5ull + 0x9e3779b97f4a7c15ull) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
  bool percent(uint64_t p) { return below(100) < p; }
  uint8_t byte() { return static_cast<uint8_t>(next() >> 24); }
  uint8_t one_of(std::initializer_list<uint8_t> choices) {
    return choices.begin()[below(choices.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace shadowprof::fuzz
