// SPDX-License-Identifier: MIT
//
// Which registers need no slot of their own, while a fragment is made: for both engines.
#pragma once

#include "decoder/insn.h"

namespace shadowprof::emu {

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
