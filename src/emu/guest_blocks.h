// SPDX-License-Identifier: MIT
//
// Guest code as both engines see it: its instructions, and the blocks that they make. What one
// engine calls a block must be what the other calls it, or their traces could not be compared.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/limits.h"
#include "decoder/insn.h"
#include "emu/address_table.h"
#include "emu/code_source.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

trace::Terminator terminator_of(decoder::InsnKind kind);

class GuestBlocks {
 public:
  GuestBlocks(CodeSource& source, trace::BlockTable& table) : source_(source), table_(table) {}

  // An instruction at the end of its region may continue in the next one.
  decoder::Insn read_insn(GuestAddr pc, const CodeRegion& region) const;

  // A block that begins there will be asked for soon.
  void expect_block(GuestAddr start) const { known_.expect(start); }
  // The same code gives the same block, whichever fragment it is met in. `insns`: not empty.
  BlockId block_of(std::span<const decoder::Insn* const> insns, ModuleId module,
                   trace::Terminator terminator);

 private:
  decoder::Insn fetch_insn(GuestAddr pc, const CodeRegion& region) const;

  CodeSource& source_;
  trace::BlockTable& table_;
  AddressTable<std::optional<BlockId>> known_;  // the last one at its address
  // The code of the block being looked for.
  std::array<uint8_t, (limits::kMaxBlockInsns + 1) * decoder::kMaxInsnBytes> code_{};
};

}  // namespace shadowprof::emu
