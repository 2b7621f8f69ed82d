// SPDX-License-Identifier: MIT
#include "profile/memory_table.h"

#include "profile/profile.h"

namespace shadowprof::profile {

void add_access_counts(AccessCounts& into, const AccessCounts& from) {
  into.collected |= from.collected;
  into.accesses += from.accesses;
  into.lines += from.lines;
  into.pruned += from.pruned;
  into.error_bound += from.error_bound;
  into.unknown += from.unknown;
}

void add_memory_tables(Tables& into, const Tables& from, const std::vector<uint32_t>& modules) {
  const auto moved = [&](DataRef ref) {
    if (ref.in_module) ref.at.module = modules[ref.at.module];
    return ref;
  };
  for (LatencyPageRow row : from.latency_pages) {
    row.page = moved(row.page);
    into.latency_pages.push_back(row);
  }
  into.latency_values.insert(into.latency_values.end(), from.latency_values.begin(),
                             from.latency_values.end());
  for (CacheLineRow row : from.cache_lines) {
    row.line = moved(row.line);
    into.cache_lines.push_back(row);
  }
}

void keep_hottest_lines(Profile& profile, size_t rows) {
  CacheLineTable& lines = profile.tables.cache_lines;
  if (lines.size() <= rows) return;
  keep_hottest(lines, rows, profile.coverage.accesses);
  normalise(profile.tables);
}

}  // namespace shadowprof::profile
