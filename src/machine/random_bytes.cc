// SPDX-License-Identifier: MIT
#include "machine/random_bytes.h"

#include <algorithm>
#include <cstring>

namespace shadowprof::machine {

uint64_t RandomBytes::next() {
  state_ += 0x9e37'79b9'7f4a'7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

void RandomBytes::fill(std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const uint64_t value = next();
    const size_t size = std::min(bytes.size(), sizeof value);
    std::memcpy(bytes.data(), &value, size);
    bytes = bytes.subspan(size);
  }
}

}  // namespace shadowprof::machine
