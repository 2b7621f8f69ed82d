// SPDX-License-Identifier: MIT
#include "trace/block_table.h"

#include <algorithm>

#include "base/code_cells.h"

namespace shadowprof::trace {
const char* to_string(Terminator t) {
  switch (t) {
    case Terminator::none: return "none";
    case Terminator::conditional: return "conditional";
    case Terminator::jump: return "jump";
    case Terminator::call: return "call";
    case Terminator::indirect_jump: return "indirect_jump";
    case Terminator::indirect_call: return "indirect_call";
    case Terminator::ret: return "ret";
    case Terminator::syscall: return "syscall";
    case Terminator::native: return "native";
  }
  return "?";
}

const char* to_string(RunExit e) {
  switch (e) {
    case RunExit::not_taken: return "not_taken";
    case RunExit::taken: return "taken";
    case RunExit::jump: return "jump";
    case RunExit::call: return "call";
    case RunExit::indirect_jump: return "indirect_jump";
    case RunExit::indirect_call: return "indirect_call";
    case RunExit::ret: return "ret";
    case RunExit::syscall: return "syscall";
    case RunExit::split: return "split";
    case RunExit::native: return "native";
    case RunExit::interrupted: return "interrupted";
  }
  return "?";
}

BlockTable::BlockTable()
    : modules_(limits::kMaxBlocks),  // each has a block, at least
      blocks_(limits::kMaxBlocks),
      runs_(limits::kMaxRuns),
      run_blocks_(limits::kMaxRunBlocks),
      slots_(limits::kMaxSlots),
      code_(limits::kMaxCodeBytes) {}

ModuleId BlockTable::add_module(Module module) {
  own_modules_.push_back(std::make_unique<const Module>(std::move(module)));
  modules_.push_back(own_modules_.back().get());
  return ModuleId(static_cast<uint32_t>(modules_.size() - 1));
}

BlockId BlockTable::add_block(Block block, std::span<const uint8_t> code) {
  SP_CHECK(code.size() <= UINT16_MAX, "a block of {} bytes", code.size());
  block.code_bytes = static_cast<uint16_t>(code.size());
  block.code_index = static_cast<uint32_t>(code_.size());
  code_.append(code);
  blocks_.push_back(block);
  return BlockId(static_cast<uint32_t>(blocks_.size() - 1));
}

RunId BlockTable::add_run(Run run, std::span<const BlockId> blocks, std::span<const Slot> slots) {
  SP_CHECK(!blocks.empty() && blocks.size() <= UINT8_MAX, "a run has 1 to 255 blocks");
  run.first_block = blocks[0];
  run.cell = code_cell(block(blocks[0]).start);
  run.block_count = static_cast<uint8_t>(blocks.size());
  run.blocks_index = static_cast<uint32_t>(run_blocks_.size());
  run.slots_index = static_cast<uint32_t>(slots_.size());
  run.slot_count = static_cast<uint16_t>(slots.size());
  run.words = static_cast<uint16_t>(1 + 2 * slots.size());
  run.timed_loads =
      static_cast<uint16_t>(std::ranges::count(slots, SlotKind::load_cycles, &Slot::kind));
  run_blocks_.append(blocks);
  slots_.append(slots);
  runs_.push_back(run);
  return RunId(static_cast<uint32_t>(runs_.size() - 1));
}

}  // namespace shadowprof::trace
