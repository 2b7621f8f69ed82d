// SPDX-License-Identifier: MIT
//
// From lists of run ids to paths: what PathCollector has at the end.
#include <algorithm>

#include "collect/path_state.h"
#include "collect/table_builder.h"

namespace shadowprof::collect {

namespace {

// Rows of the file's table: the hottest, and in any case the hottest twentieth.
constexpr size_t kMostRows = 50'000;

}  // namespace

std::vector<BlockId> PathCollector::State::blocks_of(std::span<const uint32_t> list,
                                                     uint64_t& insns) const {
  const uint32_t skip = list[0];
  uint32_t keep = 0;
  if (list.back() & kKeep) {
    keep = list.back() & ~kKeep;
    list = list.first(list.size() - 1);
  }
  std::vector<BlockId> result;
  bool continues = false;
  for (size_t i = 1; i < list.size(); i++) {
    const trace::Run& run = table.run(RunId(list[i]));
    const auto blocks = table.blocks(run);
    const uint32_t first = i == 1 ? skip : 0;
    const uint32_t end = i + 1 == list.size() && keep != 0 ? keep : ~0u;
    uint32_t number = 0;  // of the block within the run, what was split for a limit taken as one
    for (size_t b = 0; b < blocks.size(); b++) {
      const bool split = b != 0 && continues_in_run(table.block(blocks[b - 1]));
      if (b != 0 && !split) number++;
      if (number < first || number >= end) continue;
      if (b == 0 ? !continues : !split) result.push_back(blocks[b]);
      insns += b + 1 == blocks.size() ? run.last_block_insns : table.block(blocks[b]).insns;
    }
    continues = runs[list[i]].step == Step::same;
  }
  return result;
}

void PathCollector::State::finish(profile::Profile& into) {
  for (auto& [tid, thread] : threads) {
    drop(thread.flow);
    for (Flow& f : thread.interrupted) drop(f);
  }
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  profile::PathTable& rows = mine.tables.paths;
  for (uint32_t n = PathTrie::kRoots; n < trie.size(); n++) {
    const PathTrie::Node& node = trie.node(n);
    if (node.count == 0) continue;
    profile::PathRow row;
    row.count = node.count;
    for (const BlockId b : blocks_of(trie.list(n), row.insns))
      row.blocks.push_back(builder.at(table.block(b)));
    if (node.from != 0) {
      const CallSite& site = sites[node.from - 1];
      row.from_known = true;
      row.from = builder.at(site.call, site.module);
    }
    rows.push_back(std::move(row));
  }
  profile::normalise(mine.tables);
  profile::PathCounts& counts = mine.coverage.paths;
  counts = {true,
            options.scope == PathScope::intra,
            trie.executions(),
            rows.size(),
            trie.pruned(),
            trie.error_bound(),
            dropped};
  profile::keep_hottest_paths(mine, std::max(kMostRows, rows.size() / 20 + 1));
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_path_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
