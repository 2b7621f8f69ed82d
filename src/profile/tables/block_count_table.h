// SPDX-License-Identifier: MIT
//
// Execution counts of basic blocks. Blocks are canonical (canonical.h): cut wherever another block
// begins, so the table does not depend on the order in which code was discovered. Rows overlap only
// where the bytes really were executed as different instructions: code that changed, or a jump
// into the middle of an instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

struct BlockCount {
  CodeRef at;
  uint32_t size = 0;   // bytes
  uint32_t insns = 0;  // instructions of one execution
  uint64_t count = 0;  // how often it was entered
};

// `count` of a block's executions ended after `executed` of its instructions: a signal, a fault,
// the thread's end. Instructions executed in a block =
//   count x insns - sum over its interruptions of count x (insns - executed).
struct Interruption {
  uint32_t block = 0;     // index into the block table
  uint32_t executed = 0;  // 1 .. insns - 1
  uint64_t count = 0;
};

using BlockTable = std::vector<BlockCount>;           // by place, size, insns; unique
using InterruptionTable = std::vector<Interruption>;  // by block, executed; unique

inline constexpr Columns kBlockColumns{
    code_place<&BlockCount::at>("module", "offset"),
    column<&BlockCount::size>("size"),
    column<&BlockCount::insns>("insns"),
    column<&BlockCount::count>("count").sum(),
};
inline constexpr TableLayout<BlockCount> kBlockLayout{
    .name = "blocks", .title = "blocks", .columns = kBlockColumns, .written = Written::always};

inline constexpr Columns kInterruptionColumns{
    column<&Interruption::block>("block"),
    column<&Interruption::executed>("executed"),
    column<&Interruption::count>("count").sum(),
};
inline constexpr TableLayout<Interruption> kInterruptionLayout{.name = "interruptions",
                                                               .title = "interruptions",
                                                               .columns = kInterruptionColumns,
                                                               .written = Written::always};

// Over the whole table, interruptions subtracted.
uint64_t executed_instructions(const BlockTable& blocks, const InterruptionTable& interruptions);

}  // namespace shadowprof::profile
