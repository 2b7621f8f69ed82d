// SPDX-License-Identifier: MIT
#include "profile/tables/inlined_table.h"

#include <algorithm>
#include <iterator>

#include "base/join_rows.h"
#include "profile/confidence.h"

namespace shadowprof::profile {
namespace {

void add(InlinedPlace& into, const InlinedPlace& from) {
  into.self += from.self;
}

// What the linker knows may be missing in one of them.
void add(InlinedFunction& into, InlinedFunction& from) {
  if (into.linkage_name.empty()) into.linkage_name = std::move(from.linkage_name);
  into.self += from.self;
  into.self_error = added_error(into.self_error, from.self_error);
  into.inclusive += from.inclusive;
  into.user_ns += from.user_ns;
  into.kernel_ns += from.kernel_ns;
  std::move(from.places.begin(), from.places.end(), std::back_inserter(into.places));
}

template <typename Row>
void add_up(std::vector<Row>& rows) {
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.key() < b.key(); });
  join_neighbours(rows, [](Row& a, Row& b) { add(a, b); });
}

}  // namespace

void normalise_inlined(InlinedTable& rows) {
  add_up(rows);
  for (InlinedFunction& f : rows) add_up(f.places);
}

}  // namespace shadowprof::profile
