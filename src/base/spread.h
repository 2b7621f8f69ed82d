// SPDX-License-Identifier: MIT
//
// For tables that are found by a key: keys that lie close to one another come to lie far apart.
#pragma once

#include <cstdint>

namespace shadowprof {

inline constexpr uint64_t kGolden = 0x9E37'79B9'7F4A'7C15;  // 2^64 divided by the golden ratio

// The high bits depend on all bits of the key, the low ones on its low ones only.
constexpr uint64_t spread(uint64_t key) {
  return key * kGolden;
}

}  // namespace shadowprof
