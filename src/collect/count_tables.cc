// SPDX-License-Identifier: MIT
#include "collect/count_tables.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collect/linkage_stub.h"
#include "collect/table_builder.h"
#include "collect/thread_tables.h"

namespace shadowprof::collect {
namespace {

using profile::CodeRef;
using trace::RunExit;

// Where stubs lead, by the address of the stub: the target that it jumped to most often, and of
// several the first by place. Its first jump may have gone to what lies right behind it, and from
// there to the dynamic linker, which went on to the same target: that counts only if there is no
// other. A pair comes in any number of parts.
class Stubs {
 public:
  void add(const trace::Block& stub, CodeRef at, CodeRef target, uint64_t count) {
    const CodeRef behind{at.module, at.offset + static_cast<uint64_t>(stub.end - stub.start)};
    Target& known = targets_[stub.start][target];
    known.count += count;
    known.is_elsewhere = target != behind;
  }
  const CodeRef* find(GuestAddr stub) const {
    const auto it = targets_.find(stub);
    if (it == targets_.end()) return nullptr;
    const auto less = [](const auto& a, const auto& b) {
      return std::pair(a.second.is_elsewhere, a.second.count) <
             std::pair(b.second.is_elsewhere, b.second.count);
    };
    return &std::max_element(it->second.begin(), it->second.end(), less)->first;
  }

 private:
  struct Target {
    uint64_t count = 0;
    bool is_elsewhere = false;
  };
  std::unordered_map<GuestAddr, std::map<CodeRef, Target>> targets_;
};

}  // namespace

void add_counts(const trace::BlockTable& table, std::span<const uint64_t> runs,
                std::span<const trace::PairCount> pairs, bool calls,
                std::span<const trace::ThreadCount> threads, profile::Profile& into) {
  profile::Profile mine;
  TableBuilder builder(table, mine);
  std::vector<uint64_t> totals(runs.begin(), runs.end());
  totals.resize(table.run_count());
  Stubs stubs;
  for (const trace::PairCount& pair : pairs) {
    const trace::Run& run = table.run(pair.run);
    const trace::Block& from = table.block(table.blocks(run).back());
    const CodeRef to = builder.at(table.block(pair.successor));
    totals[pair.run.value] += pair.count;
    builder.add_edge(from, to, edge_kind_of(run.exit), pair.count);
    if (trace::is_call(run.exit)) builder.add_call(from, to, true, pair.count, 0);
    if (run.exit == RunExit::indirect_jump && from.insns <= kMaxStubInsns) {
      stubs.add(from, builder.at(from), to, pair.count);
    }
  }
  for (uint32_t id = 0; id < totals.size(); id++) {
    const uint64_t count = totals[id];
    if (count == 0) continue;
    const trace::Run& run = table.run(RunId(id));
    builder.add_run(run, count);
    mine.coverage.instructions_profiled += count * run.insns;
    for (BlockId block : table.blocks(run)) {
      const trace::Block& from = table.block(block);
      // `call next` only reads the program counter: nothing returns from it.
      if (from.terminator != trace::Terminator::call || from.target == from.end) continue;
      if (block == table.blocks(run).back() && run.exit != RunExit::call) continue;
      const auto callee = builder.resolve(from.target, from.module);
      if (!callee) continue;
      const CodeRef* behind_stub = stubs.find(from.target);
      builder.add_call(from, behind_stub ? *behind_stub : *callee, false, count, 0);
      if (behind_stub) builder.add_entry(*callee, count, 0);
    }
  }
  builder.finish_blocks(calls);
  add_thread_tables(table, builder, totals, threads, mine);
  if (builder.edges_without_module != 0) {
    mine.coverage.events["edges_without_module"] += builder.edges_without_module;
  }
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
