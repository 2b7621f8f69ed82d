// SPDX-License-Identifier: MIT
//
// What div and idiv divide by.
#pragma once

#include <optional>

#include "decoder/insn.h"

namespace shadowprof::decoder {

struct Divisor {
  bool in_memory = false;
  Gpr reg = kNoGpr;   // else
  uint8_t shift = 0;  // 8 for ah, bh, ch, dh
  uint8_t bits = 0;
};

// Nothing: it is another instruction.
std::optional<Divisor> divisor_of(const Insn& insn);

}  // namespace shadowprof::decoder
