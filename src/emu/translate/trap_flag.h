// SPDX-License-Identifier: MIT
//
// A popf that sets the trap flag makes the processor trap behind each instruction that follows, and
// those are not the program's in the code cache. So the value on the stack is looked at first,
// which may change flags, since popf is about to write them. One that sets the flag leads to an
// int3, at a Point with kSetsTrapFlag; who runs the guest executes the popf where the guest has it.
#pragma once

#include <algorithm>

#include "decoder/insn.h"
#include "emu/translate/emitter.h"

namespace shadowprof::emu {

inline bool pops_flags(const decoder::Insn& insn) {
  constexpr uint8_t kPopf = 0x9d;
  if (insn.length == 0) return false;
  const auto last = insn.bytes.begin() + insn.length - 1;
  const auto is_prefix = [](uint8_t b) {
    return b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x64 || b == 0x65 ||
           b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3 || (b & 0xf0) == 0x40;
  };
  return *last == kPopf && std::all_of(insn.bytes.begin(), last, is_prefix);
}

// The caller emits the int3 right behind it; the answer is the rel32 field of the jump over that.
inline uint32_t emit_trap_flag_check(Emitter& e) {
  constexpr uint8_t kZero = 4;
  e.bytes({0x66, 0xf7, 0x04, 0x24, 0x00, 0x01});               // test word [rsp], 0x100
  return e.jcc_forward(kZero);
}

}  // namespace shadowprof::emu
