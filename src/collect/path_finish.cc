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
  const uint32_t skip = list[0] & 0xff;
  const uint32_t keep = list[0] >> 8;
  std::vector<BlockId> result;
  bool continues = false;
  for (size_t i = 1; i < list.size(); i++) {
    const trace::Run& run = table.run(RunId(list[i]));
    const auto blocks = table.blocks(run);
    const size_t first = i == 1 ? skip : 0;
    const size_t end = i + 1 == list.size() && keep != 0 ? keep : blocks.size();
    for (size_t b = first; b < end; b++) {
      if (b != 0 || !continues) result.push_back(blocks[b]);
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
  for (const PathLists::List& list : lists.lists()) {
    profile::PathRow row;
    row.count = list.count;
    for (const BlockId b : blocks_of(lists.elements(list), row.insns))
      row.blocks.push_back(builder.at(table.block(b)));
    if (list.from != 0) {
      const CallSite& site = sites[list.from - 1];
      row.from_known = true;
      row.from = builder.at(site.call, site.module);
    }
    rows.push_back(std::move(row));
  }
  profile::normalise(mine.tables);
  profile::PathCounts& counts = mine.coverage.paths;
  counts = {true,
            options.scope == PathScope::intra,
            lists.executions(),
            rows.size(),
            lists.pruned(),
            lists.error_bound(),
            dropped};
  profile::keep_hottest_paths(mine, std::max(kMostRows, rows.size() / 20 + 1));
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_path_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
