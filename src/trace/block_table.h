// SPDX-License-Identifier: MIT
//
// The immutable half of the trace contract: what the numbers in a trace mean.
//
//   Module    a file (or anonymous region) that code was mapped from, at one place, at one time.
//   Block     straight-line guest code from an address to a terminator. Blocks are dynamic: a jump
//             into the middle of one makes another that ends at the same terminator.
//   Fragment  what an engine translates at once: up to kMaxFragmentBlocks blocks that follow one
//             another when their conditional branches are not taken.
//   Run       a fragment entered at its start and left at one particular exit. Records name runs:
//             one number says which 1..N blocks executed and how the last one was left. A run's
//             id is written when the fragment is *left*, so a fragment that falls through three
//             branches costs one record and not four.
//   Plan      the ordered slots that a record of this run carries after the id.
//
// Tables only grow; entries never change once their id has appeared in a trace. One thread (the
// one that translates) appends, collectors on other threads read; the queue that carries trace
// chunks orders the two (ReservedArray).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "base/types.h"
#include "base/unique_fd.h"

namespace shadowprof::trace {

// How a block ends.
enum class Terminator : uint8_t {
  none,           // split: size limit, or code that must be looked at again; the next block follows
  conditional,    // jcc, jrcxz, loop
  jump,           // direct unconditional
  call,           // direct
  indirect_jump,
  indirect_call,
  ret,
  syscall,
  native,         // one instruction that the engine hands to the kernel or CPU by itself
};
const char* to_string(Terminator t);

// How a run's last block was left.
enum class RunExit : uint8_t {
  not_taken,      // of a conditional: to the next instruction
  taken,          // of a conditional
  jump,
  call,
  indirect_jump,
  indirect_call,
  ret,
  syscall,        // to the next instruction, after the system call
  split,          // nothing branched: the next block simply follows
  native,
  interrupted,    // in the middle of the last block: a signal, a fault, the thread's end
};
const char* to_string(RunExit e);

// The next record decides where such a run went; for all others Run::target does.
constexpr bool is_indirect(RunExit e) {
  return e == RunExit::indirect_jump || e == RunExit::indirect_call || e == RunExit::ret;
}
constexpr bool is_call(RunExit e) { return e == RunExit::call || e == RunExit::indirect_call; }

struct Module {
  std::string path;      // as the kernel names it: "/usr/bin/gzip", "[vdso]", "" for anonymous code
  GuestRange range;      // address space that its code covered when first seen
  GuestRange image;      // and all of it, data included
  GuestAddr
      file_start;  // where the file's first byte is (or would be) mapped: offsets count from here
  uint64_t inode = 0;
  uint64_t device = 0;
  // Where its path does not lead to it (kernel/mapped_file.h).
  std::shared_ptr<const UniqueFd> file{};

  // The same file at the same place.
  bool is_as(const Module& other) const {
    return path == other.path && inode == other.inode && device == other.device &&
           file_start == other.file_start;
  }
};

struct Block {
  GuestAddr start;
  GuestAddr end;              // first byte after the last instruction
  GuestAddr last_insn;        // the terminator's own address (or the last instruction's)
  GuestAddr target;           // of a direct branch; 0 otherwise
  ModuleId module;
  uint16_t insns = 0;
  Terminator terminator = Terminator::none;
  // Its bytes as they were translated: BlockTable::code. Filled in by add_block.
  uint16_t code_bytes = 0;
  uint32_t code_index = 0;
};

enum class SlotKind : uint8_t {
  value,        // 8 bytes: general-purpose register `reg` after instruction `insn`
  base,         // 8 bytes: the base register of `insn`'s memory operand, before it executes
  index,        // 8 bytes: the index register, likewise
  load_cycles,  // 2 x 4 bytes: low halves of the time stamp before and after the load
  stamps,       // likewise, with no load between them: of the record's first timed load
  compared,     // 8 bytes: register `reg`, which `insn` compares, stores or divides by, before it
                // executes
  memory,       // 8 bytes: the memory operand of compare, store or division `insn`, likewise,
                // zero-extended
  vector,       // 8 bytes: the low 64 bits of vector register `reg` after instruction `insn`
  mask,         // 8 bytes: mask register `reg` after instruction `insn`
  moment,       // 8 bytes: the time stamp; `reg` 0: behind a system call, before the run's first
                // instruction; 1: before the system call that ends it
  bout,         // 8 bytes: which execution of a bout this is, for place_in_bout()
};

// What is captured in bouts is captured in so many executions in a row, of whatever fragments.
inline constexpr uint64_t kBoutExecutions = 32;
// From 0. The slot has how many are left, but in the last one, where the next bout's are.
constexpr uint64_t place_in_bout(uint64_t slot) {
  return (2 * kBoutExecutions - 1 - slot) % kBoutExecutions;
}

struct Slot {
  SlotKind kind;
  uint8_t reg;    // 0 rax .. 15 r15 in encoding order; 0 xmm0 .. 31 xmm31; 0 k0 .. 7 k7
  uint16_t insn;  // index of the instruction within the run (over all its blocks)
};


struct Run {
  uint32_t insns = 0;          // executed by the whole run
  uint16_t words = 1;          // 4-byte words of its record, the id included
  RunExit exit = RunExit::split;
  uint8_t block_count = 1;
  // Its fragment's translation, or the interpreter, writes slots (this run's may be none), and not
  // in bouts only.
  bool captures = false;
  bool of_bouts = false;       // its fragment's translation is executed in bouts only
  bool recorded = true;        // false: only counted, so its id is in no trace
  uint8_t cell = 0;            // of its start
  BlockId first_block;         // == blocks(run)[0]: where the run starts
  uint32_t blocks_index = 0;   // into the table's list of run blocks
  uint32_t slots_index = 0;
  uint16_t slot_count = 0;
  uint16_t timed_loads = 0;        // of its slots; filled in by add_run
  uint16_t last_block_insns = 0;  // executed of the last block (fewer than it has: interrupted)
  GuestAddr target;            // where a direct exit leads; 0 for indirect ones
};

class BlockTable {
 public:
  BlockTable();

  ModuleId add_module(Module module);
  // `code`: the block's bytes, for collectors that look at instructions; may be empty.
  BlockId add_block(Block block, std::span<const uint8_t> code = {});
  // `run`'s index fields are filled in here.
  RunId add_run(Run run, std::span<const BlockId> blocks, std::span<const Slot> slots);

  const Module& module(ModuleId id) const { return *modules_[id.value]; }
  const Block& block(BlockId id) const { return blocks_[id.value]; }
  const Run& run(RunId id) const { return runs_[id.value]; }
  std::span<const uint8_t> code(const Block& block) const {
    return {code_.data() + block.code_index, block.code_bytes};
  }
  std::span<const BlockId> blocks(const Run& run) const {
    return {run_blocks_.data() + run.blocks_index, run.block_count};
  }
  std::span<const Slot> slots(const Run& run) const {
    return {slots_.data() + run.slots_index, run.slot_count};
  }

  size_t module_count() const { return modules_.size(); }
  size_t block_count() const { return blocks_.size(); }
  size_t run_count() const { return runs_.size(); }

 private:
  std::vector<std::unique_ptr<const Module>> own_modules_;
  ReservedArray<const Module*> modules_;
  ReservedArray<Block> blocks_;
  ReservedArray<Run> runs_;
  ReservedArray<BlockId> run_blocks_;
  ReservedArray<Slot> slots_;
  ReservedArray<uint8_t> code_;
};

}  // namespace shadowprof::trace
