// SPDX-License-Identifier: MIT
//
// Rows of one thing made one row.
#pragma once

#include <utility>
#include <vector>

namespace shadowprof {

template <typename Row>
concept Keyed = requires(const Row& row) {
  row.key();
};

// Rows are sorted by key, and equal ones become one: join(a, b) makes b part of a.
template <Keyed Row, typename Join>
void join_neighbours(std::vector<Row>& rows, Join join) {
  size_t last = 0;
  for (size_t i = 1; i < rows.size(); i++) {
    if (rows[last].key() == rows[i].key())
      join(rows[last], rows[i]);
    else if (++last != i)
      rows[last] = std::move(rows[i]);
  }
  if (!rows.empty()) rows.resize(last + 1);
}

}  // namespace shadowprof
