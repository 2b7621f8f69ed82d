// SPDX-License-Identifier: MIT
//
// Which of xmm0 to xmm3 a function reads before it writes them: those can be arguments of it. What
// callers leave there by the way (a register cleared to clear memory with it) is none.
//
// Only code in the block table is looked at, so only what was translated: along jumps, through both
// sides of conditional branches, and into what it calls, up to kMaxBlocks blocks.
#pragma once

#include <unordered_map>

#include "decoder/insn.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

class VectorArguments {
 public:
  explicit VectorArguments(const trace::BlockTable& table) : table_(table) {}
  decoder::VectorMask read_by(BlockId entry);

 private:
  static constexpr size_t kMaxBlocks = 64;

  decoder::VectorMask find(BlockId entry);

  const trace::BlockTable& table_;
  std::unordered_map<GuestAddr, BlockId> block_at_;  // made when it is first needed
  std::unordered_map<BlockId, decoder::VectorMask> known_;
};

}  // namespace shadowprof::collect
