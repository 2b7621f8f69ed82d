// SPDX-License-Identifier: MIT
//
// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): its state
// grows by a constant, and each value is a mix of the state. The same sequence on every machine. No
// secrets can be made of it.
#pragma once

#include <cstdint>

#include "base/spread.h"

namespace shadowprof {

// The next value.
inline uint64_t split_mix(uint64_t& state) {
  uint64_t z = state += kGolden;
  z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9ull;
  z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EBull;
  return z ^ z >> 31;
}

}  // namespace shadowprof
