// SPDX-License-Identifier: MIT
//
// Coin flips for sampling: small, fast, seeded, the same sequence on every machine (which the
// standard library's distributions do not promise). Not for secrets.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/split_mix.h"

namespace shadowprof::profile {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return split_mix(state_); }
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
