// SPDX-License-Identifier: MIT
#include "profile/tables/memory_table.h"

#include "profile/profile.h"
#include "profile/tables/table_rows.h"

namespace shadowprof::profile {

void add_access_counts(AccessCounts& into, const AccessCounts& from) {
  into.collected |= from.collected;
  add_columns(kAccessCountColumns, into, from);
}

void keep_hottest_lines(Profile& profile, size_t rows) {
  CacheLineTable& lines = profile.tables.cache_lines;
  if (lines.size() <= rows) return;
  keep_hottest(lines, rows, profile.coverage.accesses);
  normalise(profile.tables);
}

}  // namespace shadowprof::profile
