// SPDX-License-Identifier: MIT
//
// What a program gets that asks for random bytes and is to get the same in each run. No secrets can
// be made of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/split_mix.h"

namespace shadowprof::machine {

class RandomBytes {
 public:
  void fill(std::span<uint8_t> bytes);
  // For a process that this one's makes: it gets other bytes than its parent and its siblings.
  RandomBytes split() { return RandomBytes(next()); }

  RandomBytes() = default;

 private:
  explicit RandomBytes(uint64_t state) : state_(state) {}
  uint64_t next() { return split_mix(state_); }

  uint64_t state_ = 0x3b91'5ec4'27d8'6af0;
};

}  // namespace shadowprof::machine
