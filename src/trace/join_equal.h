// SPDX-License-Identifier: MIT
//
// Counts that are noted one behind the other, and added up where they are of the same thing. A
// count's type says what that is: key().
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/join_rows.h"

namespace shadowprof::trace {

// Adds up equal ones, and sorts them.
template <typename Count>
void join_equal(std::vector<Count>& counts) {
  std::ranges::sort(counts, {}, [](const Count& c) { return c.key(); });
  join_neighbours(counts, [](Count& a, const Count& b) { a.count += b.count; });
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
