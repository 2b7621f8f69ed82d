// SPDX-License-Identifier: MIT
//
// Code hashed into a few dozen cells by its address: enough to see whether samples of one process
// resemble one another, and what a clock says of the same code. 2^kCellBytesLog bytes of code are
// in one cell, those that follow in any other (Knuth's multiplicative hash).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/spread.h"
#include "base/types.h"

namespace shadowprof {

inline constexpr size_t kCodeCells = 64;
inline constexpr unsigned kCellBytesLog = 10;

inline uint8_t code_cell(GuestAddr at) {
  static_assert(kCodeCells == 64);
  return static_cast<uint8_t>(spread(at.value >> kCellBytesLog) >> 58);
}

}  // namespace shadowprof
