// SPDX-License-Identifier: MIT
#include "profile/file/baseline.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "profile/file/compression.h"
#include "profile/file/json_file.h"

namespace shadowprof::profile {
namespace {

// Rows of each table that are kept in part, to begin with.
constexpr size_t kMostRowsInPart = 8192;

template <typename Layout, typename Rows>
void note_left_out(Profile& p, const Layout& layout, const Rows& rows) {
  if (!rows.empty()) p.left_out[layout.name] += rows.size();
}

template <typename Layout, typename Row>
void leave_out(Profile& p, const Layout& layout, std::vector<Row> Tables::*member) {
  note_left_out(p, layout, p.tables.*member);
  (p.tables.*member).clear();
}

// Leaves the rows of the functions that executed most, together at most `most` of them. Rows of one
// line are compared together, so a function's are kept or go together.
template <typename Layout, typename Row, typename Executions>
void keep_hottest_functions(Profile& p, const Layout& layout, std::vector<Row> Tables::*member,
                            size_t most, Executions executions) {
  struct Share {
    const Function* function = nullptr;
    uint64_t executions = 0;
    size_t rows = 0;
  };
  std::vector<Row>& rows = p.tables.*member;
  if (rows.size() <= most) return;
  std::map<const Function*, Share> shares;
  for (const Row& row : rows) {
    Share& share = shares[find_function(p.functions, row.at)];
    share.executions += executions(row);
    share.rows++;
  }
  std::vector<Share> ranked;
  for (auto& [function, share] : shares) {
    share.function = function;
    if (function != nullptr) ranked.push_back(share);
  }
  std::ranges::stable_sort(ranked, std::greater<>(), &Share::executions);
  std::set<const Function*> kept;
  for (const Share& share : ranked) {
    if (share.rows > most) continue;
    most -= share.rows;
    kept.insert(share.function);
  }
  p.left_out[layout.name] += std::erase_if(
      rows, [&](const Row& row) { return !kept.contains(find_function(p.functions, row.at)); });
}

void keep_in_part(Profile& p, size_t most) {
  const size_t paths = p.tables.paths.size();
  keep_hottest_paths(p, most);
  if (paths != p.tables.paths.size()) p.left_out[kPathLayout.name] += paths - p.tables.paths.size();
  keep_hottest_functions(p, kValueLayout, &Tables::values, most,
                         [](const ValueRow& row) { return row.figures.count; });
  keep_hottest_functions(p, kLatencyLayout, &Tables::latencies, most,
                         [](const LatencyRow& row) { return row.executions; });
}

// A comparison asks for the most frequent value only.
void keep_top_values(ValueTable& values) {
  std::erase_if(values, [](const ValueRow& row) { return row.constant; });
  for (ValueRow& row : values)
    if (row.figures.top.size() > 1) row.figures.top.resize(1);
}

size_t compressed_bytes(const Profile& p) {
  return compress(profile_json(p), Compression::zstd, Effort::small).size();
}

}  // namespace

void reduce_to_baseline(Profile& profile, size_t most_bytes) {
  leave_out(profile, kBlockLayout, &Tables::blocks);
  leave_out(profile, kInterruptionLayout, &Tables::interruptions);
  leave_out(profile, kEdgeLayout, &Tables::edges);
  leave_out(profile, kEntryLayout, &Tables::entries);
  leave_out(profile, kContextLayout, &Tables::contexts);
  leave_out(profile, kLatencyPageLayout, &Tables::latency_pages);
  leave_out(profile, kLatencyValueLayout, &Tables::latency_values);
  leave_out(profile, kCacheLineLayout, &Tables::cache_lines);
  leave_out(profile, kSharingLayout, &Tables::sharing);
  leave_out(profile, kHazardLayout, &Tables::hazards);
  leave_out(profile, kWasteLayout, &Tables::waste);
  leave_out(profile, kStreamLayout, &Tables::streams);
  leave_out(profile, kArgumentLayout, &Tables::arguments);
  leave_out(profile, kProbeLayout, &Tables::probes);
  leave_out(profile, kPluginLayout, &Tables::plugins);
  for (PluginInfo& plugin : profile.plugins) plugin.texts.clear();
  leave_out(profile, kTimeLayout, &Tables::time);
  leave_out(profile, kCourseLayout, &Tables::course);
  leave_out(profile, kThreadCodeLayout, &Tables::thread_code);
  // An empty profile has no blocks either, and is a baseline all the same.
  profile.left_out.try_emplace(kBlockLayout.name, 0);
  profile.threads.clear();
  profile.overhead.timeline.clear();
  profile.hotlists = {};
  keep_top_values(profile.tables.values);
  for (size_t most = kMostRowsInPart; most != 0; most /= 2) {
    keep_in_part(profile, most);
    if (compressed_bytes(profile) <= most_bytes) return;
  }
  keep_in_part(profile, 0);
}

}  // namespace shadowprof::profile
