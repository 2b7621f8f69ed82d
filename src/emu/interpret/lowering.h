// SPDX-License-Identifier: MIT
//
// Guest code in, ops out: which instructions become one fragment, and the ops that execute it.
//
// Fragments have the shape of the translator's without the rules that are the code cache's own (the
// register that stands in for r15 ends some of its blocks early, and it may go on through jumps).
// So the records of both engines agree in this form: the ranges of instructions that the blocks of
// a record cover, put together where one begins at the end of the other; and per instruction the
// values and address registers that the slots give.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "emu/code_source.h"
#include "emu/guest_blocks.h"
#include "emu/interpret/cells.h"
#include "emu/translate/translator.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

// Ops of a fragment before they are put where they stay: links are indexes.
struct Lowered {
  std::vector<Op> ops;
  struct InnerLink {
    size_t from;
    size_t to;
  };
  std::vector<InnerLink> links;
  std::vector<GuestAddr> insns;
  std::vector<GuestRange> ranges;
  bool may_change = false;
  const char* unsupported_reason = nullptr;
};

class Lowering {
 public:
  Lowering(trace::BlockTable& table, CodeSource& source, Cells& cells, bool exact_flags)
      : table_(table),
        source_(source),
        guest_blocks_(source, table),
        cells_(cells),
        exact_flags_(exact_flags) {}

  // Nothing: there is no code at `pc`.
  std::optional<Lowered> lower(GuestAddr pc, CapturePlan plan);

 private:
  struct PlannedBlock {
    BlockId id;
    uint32_t first_insn;
    uint32_t end_insn;
  };
  struct TakenSide {  // of a conditional: its exit is made behind the fragment's ops
    size_t op;
    uint32_t blocks;
    uint32_t insns;
    size_t slots;
    GuestAddr target;
  };

  // Deciding what the fragment is.
  bool plan_fragment(GuestAddr pc, const CodeRegion& region);
  std::optional<GuestAddr> plan_block(GuestAddr pc, const CodeRegion& region);
  bool can_follow(GuestAddr target, const CodeRegion& region) const;
  void add_block(uint32_t first_insn, const CodeRegion& region, trace::Terminator terminator);

  // Making its ops.
  void lower_insn(uint32_t index, bool flags_live);
  void lower_ordinary(const decoder::Insn& insn, bool flags_live);
  bool lower_named(const decoder::Operation& operation, bool flags_live);
  bool lower_one_of_a_kind(const decoder::Operation& operation);
  bool lower_stack(const decoder::Operation& operation);
  bool lower_state(const decoder::Operation& operation);
  void lower_cell(const decoder::Insn& insn);
  void lower_branch(const decoder::Insn& insn, uint32_t index);
  void lower_indirect(const decoder::Insn& insn, uint32_t index);
  void exit(trace::RunExit how, uint32_t blocks, uint32_t insns, size_t slots, GuestAddr target);
  RunId make_run(trace::RunExit how, uint32_t blocks, uint32_t insns, size_t slots,
                 GuestAddr target);
  void capture(trace::SlotKind kind, decoder::Gpr reg);
  void capture_addresses(const decoder::Insn& insn);
  void capture_compared(const decoder::Insn& insn);
  void capture_divisor(const decoder::Insn& insn);
  void capture_stored(const decoder::Insn& insn);
  void capture_memory(const decoder::Insn& insn, uint8_t bits);
  void capture_wished(const decoder::Insn& insn);
  void capture_results(const decoder::Insn& insn);
  Op& add(Handler handler);
  Op& add_with_address(Handler handler, const decoder::Operation& operation);
  void address(Op& op, const decoder::Operation& operation);
  void prepare_address(const decoder::Operation& operation);
  std::vector<bool> live_flags() const;
  void refuse(const char* reason);
  uint32_t blocks_until(uint32_t insns) const;

  trace::BlockTable& table_;
  CodeSource& source_;
  GuestBlocks guest_blocks_;
  Cells& cells_;
  bool exact_flags_;

  // The fragment being made.
  CapturePlan plan_;
  Lowered out_;
  std::vector<decoder::Insn> insns_;
  std::vector<const decoder::Insn*> block_insns_;
  std::vector<PlannedBlock> blocks_;
  std::vector<BlockId> block_ids_;
  std::vector<trace::Slot> slots_;
  std::vector<TakenSide> taken_sides_;
  CapturedRegisters captured_;
  trace::CaptureWish wish_;  // of the instruction
  uint16_t index_ = 0;             // of the instruction
};

}  // namespace shadowprof::emu
