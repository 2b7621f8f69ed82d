// SPDX-License-Identifier: MIT
//
// Instructions by code, hashed into cells: enough to see whether samples resemble one another. Code is
// told apart by where runs begin, and not by their numbers: what several engines make of the same code
// has as many.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "trace/block_table.h"
#include "trace/record.h"

namespace shadowprof::trace {

using CodeShares = std::array<uint64_t, kCodeCells>;

// Adds the instructions of these records. Returns their number.
uint64_t count_instructions(const BlockTable& table, std::span<const Word> words, CodeShares& shares);

}  // namespace shadowprof::trace
