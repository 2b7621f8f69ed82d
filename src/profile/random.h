// SPDX-License-Identifier: MIT
//
// Coin flips for sampling: small, fast, seeded, the same sequence on every machine (which the
// standard library's distributions do not promise). Not for secrets.
#pragma once

#include <cmath>
#include <cstdint>

namespace shadowprof::profile {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // SplitMix64 (Steele, Lea, Flood 2014).
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  // In (0, 1].
  double unit() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }
  // How many coins fall wrong before the first right one, of coins that are right with 1/one_in.
  uint64_t failures(double one_in) {
    if (one_in <= 1) return 0;
    const double n = std::floor(std::log(unit()) / std::log1p(-1 / one_in));
    return n < 1e18 ? static_cast<uint64_t>(n) : uint64_t{1'000'000'000'000'000'000};
  }

 private:
  uint64_t state_;
};

}  // namespace shadowprof::profile
