// SPDX-License-Identifier: MIT
#include "collect/operation_counts.h"

#include <algorithm>
#include <vector>

#include "decoder/insn.h"

namespace shadowprof::collect {
namespace {

using trace::RunExit;
using trace::Terminator;

// What the first `insns` instructions of a block load and store, once.
OperationCounts accesses_of(const trace::BlockTable& table, const trace::Block& block,
                            uint16_t insns) {
  OperationCounts counts;
  std::span<const uint8_t> code = table.code(block);
  GuestAddr address = block.start;
  for (uint16_t i = 0; i < insns && !code.empty(); i++) {
    const decoder::Insn insn = decoder::decode(code, address);
    if (insn.length == 0) break;
    for (uint8_t a = 0; a < insn.access_count && !insn.prefetches; a++) {
      counts.loads += insn.accesses[a].read ? 1 : 0;
      counts.stores += insn.accesses[a].write ? 1 : 0;
    }
    code = code.subspan(std::min<size_t>(insn.length, code.size()));
    address = insn.next();
  }
  return counts;
}

// Each block's code is decoded once, whatever the number of its runs.
class BlockAccesses {
 public:
  explicit BlockAccesses(const trace::BlockTable& table)
      : table_(table), known_(table.block_count()), counts_(table.block_count()) {}

  const OperationCounts& of(BlockId id) {
    if (!known_[id.value]) {
      const trace::Block& block = table_.block(id);
      counts_[id.value] = accesses_of(table_, block, block.insns);
      known_[id.value] = true;
    }
    return counts_[id.value];
  }

 private:
  const trace::BlockTable& table_;
  std::vector<bool> known_;
  std::vector<OperationCounts> counts_;
};

void add_accesses(const OperationCounts& accesses, uint64_t count, OperationCounts& sum) {
  sum.loads += count * accesses.loads;
  sum.stores += count * accesses.stores;
}

// A block within a run was left to the next one: a conditional branch of it was not taken.
void add_inner_branch(Terminator terminator, uint64_t count, OperationCounts& sum) {
  const bool is_jump = terminator == Terminator::jump || terminator == Terminator::call;
  if (!is_jump && terminator != Terminator::conditional) return;
  sum.branches += count;
  if (is_jump) sum.branches_taken += count;
  if (terminator == Terminator::call) sum.calls += count;
}

void add_last_branch(RunExit exit, uint64_t count, OperationCounts& sum) {
  switch (exit) {
    case RunExit::not_taken:
      sum.branches += count;
      return;
    case RunExit::call:
    case RunExit::indirect_call:
      sum.calls += count;
      [[fallthrough]];
    case RunExit::taken:
    case RunExit::jump:
    case RunExit::indirect_jump:
    case RunExit::ret:
      sum.branches += count;
      sum.branches_taken += count;
      return;
    case RunExit::syscall:
    case RunExit::split:
    case RunExit::native:
    case RunExit::interrupted:
      return;
  }
}

}  // namespace

OperationCounts count_operations(const trace::BlockTable& table,
                                 std::span<const uint64_t> executions) {
  OperationCounts sum;
  BlockAccesses accesses(table);
  const size_t runs = std::min(executions.size(), table.run_count());
  for (uint32_t id = 0; id < runs; id++) {
    const uint64_t count = executions[id];
    if (count == 0) continue;
    const trace::Run& run = table.run(RunId(id));
    const std::span<const BlockId> blocks = table.blocks(run);
    sum.instructions += count * run.insns;
    for (const BlockId block : blocks.first(blocks.size() - 1)) {
      add_accesses(accesses.of(block), count, sum);
      add_inner_branch(table.block(block).terminator, count, sum);
    }
    const trace::Block& last = table.block(blocks.back());
    add_accesses(run.last_block_insns < last.insns ? accesses_of(table, last, run.last_block_insns)
                                                   : accesses.of(blocks.back()),
                 count, sum);
    add_last_branch(run.exit, count, sum);
  }
  return sum;
}

}  // namespace shadowprof::collect
