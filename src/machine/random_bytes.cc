// SPDX-License-Identifier: MIT
#include "machine/random_bytes.h"

#include <algorithm>
#include <cstring>

namespace shadowprof::machine {

void RandomBytes::fill(std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const uint64_t value = next();
    const size_t size = std::min(bytes.size(), sizeof value);
    std::memcpy(bytes.data(), &value, size);
    bytes = bytes.subspan(size);
  }
}

}  // namespace shadowprof::machine
