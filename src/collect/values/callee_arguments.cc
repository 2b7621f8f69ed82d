// SPDX-License-Identifier: MIT
#include "collect/values/callee_arguments.h"

#include <algorithm>
#include <vector>

namespace shadowprof::collect {

using decoder::GprMask;
using decoder::VectorMask;
using trace::Terminator;

namespace {

// syscall(2): rdi, rsi, rdx, r10, r8, r9; not all of them by every call, and the number is not
// known.
constexpr unsigned kOfSystemCalls = decoder::gpr_bit(decoder::kRdi) |
                                    decoder::gpr_bit(decoder::kRsi) |
                                    decoder::gpr_bit(decoder::kRdx);

// Registers that were written on the way to a place.
struct Written {
  GprMask general = 0;
  VectorMask vectors = 0;
};

// A register is pushed to be kept for the caller, or to make room; who keeps an argument moves it.
bool only_pushes(const decoder::Insn& insn) {
  return insn.kind == decoder::InsnKind::ordinary && insn.sum.to == decoder::kRsp &&
         insn.access_count == 1 && insn.accesses[0].write;
}

void execute(const decoder::Insn& insn, Written& written, RegistersRead& read) {
  // What combines a register with itself to zero does not read it.
  if (!insn.constant_result && !only_pushes(insn))
    read.general |= static_cast<GprMask>(insn.reads & ~written.general);
  read.vectors |= static_cast<VectorMask>(insn.vector_reads & ~written.vectors);
  written.general |= insn.writes;
  written.vectors |= insn.vector_writes;
}

bool follows(Terminator end) {
  return end == Terminator::conditional || end == Terminator::none || end == Terminator::syscall ||
         end == Terminator::native;
}

bool leads_to_target(Terminator end) {
  return end == Terminator::conditional || end == Terminator::jump || end == Terminator::call;
}

}  // namespace

RegistersRead CalleeArguments::read_by(BlockId entry) {
  if (block_at_.empty()) {
    for (uint32_t b = 0; b < table_.block_count(); b++)
      block_at_[table_.block(BlockId(b)).start] = BlockId(b);
  }
  const auto [known, is_new] = known_.try_emplace(entry);
  if (is_new) known->second = find(entry);
  return known->second;
}

RegistersRead CalleeArguments::find(BlockId entry) {
  struct Way {
    BlockId block;
    Written written;
  };
  std::vector<Way> ways{{entry, {}}};  // all that was met; a block counts as it was first reached
  RegistersRead read;
  for (size_t i = 0; i < ways.size(); i++) {
    Written written = ways[i].written;
    const trace::Block& block = table_.block(ways[i].block);
    const auto code = table_.code(block);
    for (size_t at = 0; at < code.size();) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      execute(insn, written, read);
      at += std::max<size_t>(insn.length, 1);
    }
    if (block.terminator == Terminator::syscall)
      read.general |= static_cast<GprMask>(kOfSystemCalls & ~unsigned{written.general});
    const auto go_on_at = [&](GuestAddr start) {
      const auto next = block_at_.find(start);
      if (next == block_at_.end() || ways.size() == kMaxBlocks) return;
      const bool met = std::any_of(ways.begin(), ways.end(),
                                   [&](const Way& w) { return w.block == next->second; });
      if (!met) ways.push_back({next->second, written});
    };
    if (leads_to_target(block.terminator)) go_on_at(block.target);
    if (follows(block.terminator)) go_on_at(block.end);
  }
  return read;
}

}  // namespace shadowprof::collect
