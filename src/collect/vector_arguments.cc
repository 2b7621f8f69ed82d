// SPDX-License-Identifier: MIT
#include "collect/vector_arguments.h"

#include <algorithm>
#include <vector>

namespace shadowprof::collect {

using decoder::VectorMask;
using trace::Terminator;

VectorMask VectorArguments::read_by(BlockId entry) {
  if (block_at_.empty()) {
    for (uint32_t b = 0; b < table_.block_count(); b++)
      block_at_[table_.block(BlockId(b)).start] = BlockId(b);
  }
  const auto [known, is_new] = known_.try_emplace(entry, VectorMask{0});
  if (is_new) known->second = find(entry);
  return known->second;
}

VectorMask VectorArguments::find(BlockId entry) {
  struct Way {
    BlockId block;
    VectorMask written;
  };
  std::vector<Way> ways{{entry, 0}};  // all that was met; a block counts as it was first reached
  VectorMask read = 0;
  for (size_t i = 0; i < ways.size(); i++) {
    VectorMask written = ways[i].written;
    const trace::Block& block = table_.block(ways[i].block);
    const auto code = table_.code(block);
    for (size_t at = 0; at < code.size();) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      read |= static_cast<VectorMask>(insn.vector_reads & ~written);
      written |= insn.vector_writes;
      at += std::max<size_t>(insn.length, 1);
    }
    const auto go_on_at = [&](GuestAddr start) {
      const auto next = block_at_.find(start);
      if (next == block_at_.end() || ways.size() == kMaxBlocks) return;
      const bool met = std::any_of(ways.begin(), ways.end(),
                                   [&](const Way& w) { return w.block == next->second; });
      if (!met) ways.push_back({next->second, written});
    };
    const Terminator end = block.terminator;
    if (end == Terminator::conditional || end == Terminator::jump || end == Terminator::call)
      go_on_at(block.target);
    if (end == Terminator::conditional || end == Terminator::none) go_on_at(block.end);
  }
  return read;
}

}  // namespace shadowprof::collect
