// SPDX-License-Identifier: MIT
//
// The marks that include/shadowprof/marks.h puts into a program, as they are in its code: a nop
// whose operand's displacement says which mark it is, and a jump to the next instruction, so that a
// block ends with the mark.
//
//   0f 1f 84 00 dd dd dd dd   nop dword [rax+rax+d]
//   eb 00                     jmp +0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace shadowprof::collect {

enum class Mark : uint8_t { none, begin, end };

inline constexpr size_t kMarkBytes = 10;
inline constexpr std::array<uint8_t, kMarkBytes> kBeginMark = {0x0f, 0x1f, 0x84, 0x00, 0x53,
                                                               0x70, 0x42, 0x67, 0xeb, 0x00};
inline constexpr std::array<uint8_t, kMarkBytes> kEndMark = {0x0f, 0x1f, 0x84, 0x00, 0x53,
                                                             0x70, 0x45, 0x64, 0xeb, 0x00};

// The mark that a block's code ends with.
inline Mark mark_at_end(std::span<const uint8_t> code) {
  if (code.size() < kMarkBytes) return Mark::none;
  const auto end = code.last(kMarkBytes);
  if (std::ranges::equal(end, kBeginMark)) return Mark::begin;
  return std::ranges::equal(end, kEndMark) ? Mark::end : Mark::none;
}

}  // namespace shadowprof::collect
