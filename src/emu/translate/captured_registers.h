// SPDX-License-Identifier: MIT
//
// Which registers have a slot, for both engines; and of general-purpose ones, which need none of
// their own, while a fragment is made.
#pragma once

#include <optional>

#include "decoder/insn.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

// The slot for what an ordinary instruction leaves in a vector or mask register, where values are
// recorded. The slot has the low 64 bits, whatever the elements are: storing those leaves registers
// and control words as they are, and what they mean follows from the instruction.
inline std::optional<trace::SlotKind> element_slot(const decoder::Insn& insn) {
  // kmovq needs more than the first masks had (of 16 bits, in Xeon Phi alone).
  static const bool has_wide_masks = __builtin_cpu_supports("avx512bw") != 0;
  if (insn.element_result.is_vector()) return trace::SlotKind::vector;
  if (insn.element_result.is_mask() && has_wide_masks) return trace::SlotKind::mask;
  return std::nullopt;
}

class CapturedRegisters {
 public:
  // The present value is in a slot of this record.
  bool holds(decoder::Gpr reg) const { return (held_ & decoder::gpr_bit(reg)) != 0; }
  // Or follows from one that is.
  bool tells(decoder::Gpr reg) const { return (told_ & decoder::gpr_bit(reg)) != 0; }
  void capture(decoder::Gpr reg) {
    held_ |= decoder::gpr_bit(reg);
    told_ |= decoder::gpr_bit(reg);
  }
  // It has executed.
  void pass(const decoder::Insn& insn) {
    held_ &= static_cast<decoder::GprMask>(~insn.writes);
    told_ = insn.known_after(told_);
  }

 private:
  decoder::GprMask held_ = 0;
  decoder::GprMask told_ = 0;
};

}  // namespace shadowprof::emu
