// SPDX-License-Identifier: MIT
#include "emu/movable_insn.h"

namespace shadowprof::emu {
namespace {

// A C library with one thread jumps to behind it.
constexpr uint8_t kLockPrefix = 0xf0;

}  // namespace

std::optional<MovableInsn> first_movable_insn(std::span<const uint8_t> code, GuestAddr start) {
  for (GuestAddr at = start; !code.empty();) {
    const decoder::Insn insn = decoder::decode(code, at);
    if (insn.length == 0) return std::nullopt;
    const bool is_movable = insn.kind == decoder::InsnKind::ordinary && !insn.rip_relative &&
                            insn.bytes[0] != kLockPrefix;
    const bool has_room = insn.length >= kJumpBytes && at.page() == (at + (kJumpBytes - 1)).page();
    if (is_movable && has_room) return MovableInsn{at, insn.bytes, insn.length};
    at = insn.next();
    code = code.subspan(insn.length);
  }
  return std::nullopt;
}

}  // namespace shadowprof::emu
