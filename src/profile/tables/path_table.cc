// SPDX-License-Identifier: MIT
#include "profile/tables/path_table.h"

#include <algorithm>
#include <tuple>

#include "profile/profile.h"
#include "profile/tables/table_rows.h"

namespace shadowprof::profile {

void keep_hottest_paths(Profile& profile, size_t most) {
  PathTable& rows = profile.tables.paths;
  if (rows.size() <= most) return;
  std::vector<uint64_t> counts;
  for (const PathRow& row : rows) counts.push_back(row.count);
  const auto last = counts.begin() + static_cast<ptrdiff_t>(most);
  std::nth_element(counts.begin(), last, counts.end(), std::greater<>());
  const uint64_t most_lost = *last;
  std::erase_if(rows, [&](const PathRow& row) {
    if (row.count > most_lost) return false;
    profile.coverage.paths.pruned += row.count;
    return true;
  });
  profile.coverage.paths.error_bound += most_lost;
}

void add_paths(PathRow& a, const PathRow& b) {
  // Numbers of modules depend on which profile came first, so offsets come before them.
  if (std::tie(b.from_count, b.from.offset, b.from) >
      std::tie(a.from_count, a.from.offset, a.from)) {
    a.from_count = b.from_count;
    a.from = b.from;
  }
  add_columns(kPathColumns, a, b);
}

void add_path_counts(PathCounts& into, const PathCounts& from) {
  if (!from.collected) return;
  into.intra = into.collected ? into.intra && from.intra : from.intra;
  into.collected = true;
  add_columns(kPathCountColumns, into, from);
}

}  // namespace shadowprof::profile
