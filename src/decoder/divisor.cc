// SPDX-License-Identifier: MIT
#include "decoder/divisor.h"

#include <algorithm>

namespace shadowprof::decoder {

std::optional<Divisor> divisor_of(const Insn& insn) {
  // F6 /6, /7: of bytes; F7 /6, /7. Maps of longer opcodes have other instructions there.
  constexpr uint8_t kOfBytes = 0xf6, kDiv = 6, kOperandSize = 0x66, kEscape = 0x0f;
  const size_t at = insn.opcode_offset;
  if (insn.length == 0 || insn.kind != InsnKind::ordinary || insn.vex || at + 1u >= insn.length)
    return std::nullopt;
  const auto prefixes = std::span(insn.bytes).first(at);
  if ((insn.bytes[at] | 1) != (kOfBytes | 1) || std::ranges::count(prefixes, kEscape) != 0)
    return std::nullopt;
  const uint8_t modrm = insn.bytes[at + 1];
  if ((modrm >> 3 & 7) < kDiv) return std::nullopt;
  const bool has_rex = insn.rex_offset != kNoRex;
  const uint8_t rex = has_rex ? insn.bytes[insn.rex_offset] : uint8_t{0};
  Divisor divisor;
  if (insn.bytes[at] == kOfBytes)
    divisor.bits = 8;
  else if (rex & 8)
    divisor.bits = 64;
  else
    divisor.bits = std::ranges::count(prefixes, kOperandSize) != 0 ? 16 : 32;
  divisor.in_memory = modrm >> 6 != 3;
  if (divisor.in_memory) return divisor;
  divisor.reg = static_cast<Gpr>((modrm & 7) | (rex & 1) << 3);
  if (divisor.bits == 8 && !has_rex && divisor.reg >= 4) {
    divisor.reg = static_cast<Gpr>(divisor.reg - 4);
    divisor.shift = 8;
  }
  return divisor;
}

}  // namespace shadowprof::decoder
