// SPDX-License-Identifier: MIT
//
// Instructions that do the same elsewhere, and whose place has room for a jump there. (An x87 unit
// remembers where its last one was, as it does in a code cache.)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"
#include "decoder/insn.h"

namespace shadowprof::emu {

struct MovableInsn {
  GuestAddr at;
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes{};
  uint8_t length = 0;
};

// jmp rel32.
inline constexpr size_t kJumpBytes = 5;

// The first one in some code that begins at `start`. Its first kJumpBytes are on one page, and
// there are no fewer, so nobody jumps between them but who leaves out a prefix: one with `lock`, of
// which that is known, is none.
std::optional<MovableInsn> first_movable_insn(std::span<const uint8_t> code, GuestAddr start);

}  // namespace shadowprof::emu
