// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <vector>

namespace shadowprof::profile {

// The rows of `from` behind those of `into`, each changed by `change` before. Where there are none
// yet, the whole table becomes theirs: it may be of hundreds of megabytes.
template <typename Row, typename Change>
void append_rows(std::vector<Row>& into, std::vector<Row>&& from, Change change) {
  for (Row& row : from) change(row);
  if (into.empty())
    into = std::move(from);
  else
    into.insert(into.end(), std::make_move_iterator(from.begin()),
                std::make_move_iterator(from.end()));
  from.clear();
}

}  // namespace shadowprof::profile
