// SPDX-License-Identifier: MIT
//
// Which registers a function reads before it writes them: those can be arguments of it. What
// callers leave in others by the way is none.
//
// Only code in the block table is looked at, so only what was translated: along jumps, through both
// sides of conditional branches, behind system calls, and into what it calls, up to kMaxBlocks
// blocks. What a function passes on to where an indirect branch leads is not read by it.
#pragma once

#include <unordered_map>

#include "decoder/insn.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

struct RegistersRead {
  decoder::GprMask general = 0;
  decoder::VectorMask vectors = 0;
};

class CalleeArguments {
 public:
  explicit CalleeArguments(const trace::BlockTable& table) : table_(table) {}
  RegistersRead read_by(BlockId entry);

 private:
  static constexpr size_t kMaxBlocks = 64;

  RegistersRead find(BlockId entry);

  const trace::BlockTable& table_;
  std::unordered_map<GuestAddr, BlockId> block_at_;  // made when it is first needed
  std::unordered_map<BlockId, RegistersRead> known_;
};

}  // namespace shadowprof::collect
