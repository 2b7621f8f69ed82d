// SPDX-License-Identifier: MIT
//
// Processor time of blocks and paths: ticks name instructions, and these belong to blocks.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "profile/profile.h"

namespace shadowprof::profile {
namespace {

// The block that has the instruction at `at`; blocks are sorted and do not overlap.
size_t block_with(const BlockTable& blocks, CodeRef at) {
  auto after = std::ranges::upper_bound(blocks, at, {}, &BlockCount::at);
  if (after == blocks.begin()) return blocks.size();
  --after;
  const bool inside = after->at.module == at.module && at.offset - after->at.offset < after->size;
  return inside ? static_cast<size_t>(after - blocks.begin()) : blocks.size();
}

// Nothing branches at the end of block i, so who enters it goes on with the next row: a block of a
// path is cut into several rows where something jumps into its middle.
bool flows_on(const Tables& t, size_t i) {
  if (i + 1 >= t.blocks.size()) return false;
  const BlockCount& block = t.blocks[i];
  const CodeRef end{block.at.module, block.at.offset + block.size};
  if (t.blocks[i + 1].at != end) return false;
  const auto branch = std::ranges::lower_bound(t.edges, block.at, {}, &Edge::from);
  return branch == t.edges.end() || branch->from >= end;
}

}  // namespace

std::vector<uint64_t> time_of_blocks(const Profile& profile) {
  const BlockTable& blocks = profile.tables.blocks;
  std::vector<uint64_t> ns(blocks.size());
  for (const TimeRow& row : profile.tables.time) {
    const size_t block = block_with(blocks, row.at);
    if (block != blocks.size()) ns[block] += row.user_ns;
  }
  return ns;
}

std::vector<uint64_t> time_of_paths(const Profile& profile) {
  const Tables& t = profile.tables;
  const BlockTable& blocks = t.blocks;
  const std::vector<uint64_t> of_blocks = time_of_blocks(profile);
  std::vector<uint64_t> ns;
  for (const PathRow& path : t.paths) {
    double sum = 0;
    const auto add = [&](size_t block) {
      if (blocks[block].count == 0) return;
      const double part =
          static_cast<double>(path.count) / static_cast<double>(blocks[block].count);
      sum += std::min(1.0, part) * static_cast<double>(of_blocks[block]);
    };
    for (size_t i = 0; i < path.blocks.size(); i++) {
      size_t block = block_with(blocks, path.blocks[i]);
      if (block == blocks.size()) continue;
      add(block);
      const auto is_next = [&] {
        return i + 1 < path.blocks.size() && blocks[block + 1].at == path.blocks[i + 1];
      };
      while (flows_on(t, block) && !is_next()) add(++block);
    }
    ns.push_back(static_cast<uint64_t>(std::llround(sum)));
  }
  return ns;
}

double unmet_time_share(const Profile& profile) {
  uint64_t all_ns = 0;
  for (const TimeRow& row : profile.tables.time) all_ns += row.user_ns;
  if (all_ns == 0) return 0;
  const std::vector<uint64_t> met = time_of_blocks(profile);
  const uint64_t met_ns = std::accumulate(met.begin(), met.end(), uint64_t{0});
  return static_cast<double>(all_ns - met_ns) / static_cast<double>(all_ns);
}

double timed_loads_time_share(const Profile& profile) {
  std::set<const Function*> timed;
  for (const LatencyRow& load : profile.tables.latencies)
    if (load.timed != 0) timed.insert(find_function(profile.functions, load.at));
  uint64_t all_ns = 0, timed_ns = 0;
  for (const TimeRow& row : profile.tables.time) {
    all_ns += row.user_ns;
    const Function* const function = find_function(profile.functions, row.at);
    if (function != nullptr && timed.contains(function)) timed_ns += row.user_ns;
  }
  return all_ns == 0 ? 1 : static_cast<double>(timed_ns) / static_cast<double>(all_ns);
}

}  // namespace shadowprof::profile
