// SPDX-License-Identifier: MIT
#include "profile/memory_table.h"

#include "profile/append_rows.h"
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

void add_memory_tables(Tables& into, Tables& from, const std::vector<uint32_t>& modules) {
  const auto move = [&](DataRef& ref) {
    if (ref.in_module) ref.at.module = modules[ref.at.module];
  };
  const auto move_load = [&](auto& row) {
    if (row.load) row.load->module = modules[row.load->module];
  };
  append_rows(into.latency_pages, std::move(from.latency_pages), [&](LatencyPageRow& row) {
    move(row.page);
    move_load(row);
  });
  append_rows(into.latency_values, std::move(from.latency_values), move_load);
  append_rows(into.cache_lines, std::move(from.cache_lines),
              [&](CacheLineRow& row) { move(row.line); });
}

void keep_hottest_lines(Profile& profile, size_t rows) {
  CacheLineTable& lines = profile.tables.cache_lines;
  if (lines.size() <= rows) return;
  keep_hottest(lines, rows, profile.coverage.accesses);
  normalise(profile.tables);
}

}  // namespace shadowprof::profile
