// SPDX-License-Identifier: MIT
//
// Counts that are noted one behind the other, and added up where they are of the same thing. A
// count's type says what that is: identity().
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shadowprof::trace {

// Adds up equal ones, and sorts them.
template <typename Count>
void join_equal(std::vector<Count>& counts) {
  std::ranges::sort(counts, {}, [](const Count& c) { return c.identity(); });
  size_t kept = 0;
  for (size_t i = 0; i < counts.size(); i++) {
    if (kept != 0 && counts[kept - 1].identity() == counts[i].identity())
      counts[kept - 1].count += counts[i].count;
    else
      counts[kept++] = counts[i];
  }
  counts.resize(kept);
}

// The same where there are twice as many as then, and `noted` more. `different`: how many that
// left.
template <typename Count>
void join_if_many(std::vector<Count>& counts, size_t& different, size_t noted) {
  if (counts.size() < 2 * different + noted) return;
  join_equal(counts);
  different = counts.size();
}

}  // namespace shadowprof::trace
