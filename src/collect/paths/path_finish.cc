// SPDX-License-Identifier: MIT
//
// From lists of run ids to paths: what PathCollector has at the end.
#include <algorithm>
#include <cmath>

#include "collect/paths/path_state.h"
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

// A path may have several lists. One that is in no group was too rare there: as if each of its
// executions were an observation.
void PathCollector::State::fill_errors(const TableBuilder& builder, uint64_t executions,
                                       profile::Tables& tables) const {
  const auto& groups = group_counts.groups();
  profile::PathTable& rows = tables.paths;
  std::unordered_map<uint32_t, size_t> row_of_list;
  const auto row_of = [&](uint32_t list) {
    const auto [entry, added] = row_of_list.try_emplace(list, 0);
    if (!added) return entry->second;
    std::vector<profile::CodeRef> blocks;
    uint64_t insns = 0;
    for (const BlockId b : blocks_of(counts.list(list), insns))
      blocks.push_back(builder.at(table.block(b)));
    const auto row = std::lower_bound(
        rows.begin(), rows.end(), blocks,
        [](const profile::PathRow& a, const auto& wanted) { return a.blocks < wanted; });
    return entry->second = static_cast<size_t>(row - rows.begin());
  };
  std::vector<profile::ErrorSum> sums(rows.size());
  for (const GroupCounts::Group& group : groups) {
    std::unordered_map<size_t, double> in_group;
    for (const auto& [list, count] : group.entries)
      in_group[row_of(list)] += static_cast<double>(count);
    for (const auto& [row, count] : in_group) sums[row].add(count, group.size());
  }
  const profile::GroupSizes sizes = sizes_of(groups);
  const uint32_t worth = sizes.worth();
  const double all = static_cast<double>(executions);
  for (size_t i = 0; i < rows.size(); i++) {
    const auto count = static_cast<double>(rows[i].count);
    const uint64_t error = sums[i].error(worth, sizes, count / all);
    rows[i].error = std::max(error, static_cast<uint64_t>(std::ceil(std::sqrt(count))));
  }
}

void PathCollector::State::finish(profile::Profile& into) {
  settle_known();
  for (auto& [tid, thread] : threads) {
    drop(thread.flow);
    for (Flow& f : thread.interrupted) drop(f);
  }
  if (options.errors) {
    look_at_counts();
    group_counts.close();
  }
  profile::Profile mine;
  const TableBuilder builder(table, mine);
  profile::PathTable& rows = mine.tables.paths;
  std::vector<double> more;
  if (options.weights) more = group_counts.weigh(*options.weights, counts.size());
  uint64_t executions = counts.executions();
  counts.for_each([&](const PathCounts::Path& path) {
    profile::PathRow row;
    row.count = more.empty() ? path.count : weighted(path.count, more[path.number]);
    executions += row.count - path.count;
    for (const BlockId b : blocks_of(path.list, row.insns))
      row.blocks.push_back(builder.at(table.block(b)));
    if (path.from != 0) {
      const PathSite& site = sites[path.from - 1];
      row.from_count = row.count;
      row.from = builder.at(site.call, site.module);
    }
    rows.push_back(std::move(row));
  });
  profile::normalise(mine.tables);
  if (options.errors) fill_errors(builder, executions, mine.tables);
  mine.coverage.paths = {true,
                         options.scope == PathScope::intra,
                         executions,
                         rows.size(),
                         counts.pruned(),
                         counts.error_bound(),
                         dropped};
  profile::keep_hottest_paths(mine, std::max(kMostRows, rows.size() / 20 + 1));
  if (corrupt_chunks != 0) mine.coverage.events["corrupt_path_chunks"] += corrupt_chunks;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect
