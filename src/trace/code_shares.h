// SPDX-License-Identifier: MIT
//
// Instructions by code, hashed into cells: enough to see whether samples resemble one another. Code
// is told apart by where runs begin, and not by their numbers: what several engines make of the
// same code has as many.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/code_cells.h"
#include "trace/block_table.h"
#include "trace/record.h"

namespace shadowprof::trace {

using CodeShares = std::array<uint64_t, kCodeCells>;

struct RecordSums {
  uint64_t instructions = 0;
  uint64_t timed_loads = 0;
  uint64_t captured_words = 0;  // beside the runs' numbers, and not in bouts
  RecordSums& operator+=(const RecordSums& more) {
    instructions += more.instructions;
    timed_loads += more.timed_loads;
    captured_words += more.captured_words;
    return *this;
  }
};

// The sums of these records; their instructions are added to `shares`.
RecordSums sum_records(const BlockTable& table, std::span<const Word> words, CodeShares& shares);

}  // namespace shadowprof::trace
