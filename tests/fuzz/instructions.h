// SPDX-License-Identifier: MIT
//
// Random single instructions that a case may contain: random bytes in the shape of an encoding,
// kept when they decode to something whose outcome depends on nothing but registers and memory.
#pragma once

#include <optional>

#include "decoder/insn.h"
#include "random.h"

namespace shadowprof::fuzz {

// An instruction whose memory operands still have to be aimed at the case's memory.
struct RandomInsn {
  decoder::Insn insn;
  uint8_t displacement_offset = 0;
  uint8_t displacement_bits = 0;  // 0, 8, 32 or 64
  uint8_t address_bits = 64;
  bool bit_string = false;  // bt and the like: a register adds to the address
  bool repeated = false;    // counts in rcx
};

// Nothing when these bytes are no such instruction; ask again.
std::optional<RandomInsn> random_insn(Random& random);

}  // namespace shadowprof::fuzz
