// SPDX-License-Identifier: MIT
#include "profile/tables/sharing_table.h"

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {

std::optional<SharingKind> sharing_kind_from(std::string_view name) {
  for (size_t k = 0; k < kSharingKinds; k++)
    if (name == kSharingKindNames[k]) return static_cast<SharingKind>(k);
  return std::nullopt;
}

void add_sharing(SharingRow& a, const SharingRow& b) {
  // Numbers of modules depend on which profile came first, so offsets come before them.
  const auto order = [](const SharingRow& row) {
    return std::tuple(row.line_count, row.line.at.offset, row.line.in_module, row.line.at.module,
                      row.from_bytes, row.to_bytes);
  };
  if (order(b) > order(a)) {
    a.line = b.line;
    a.line_count = b.line_count;
    a.from_bytes = b.from_bytes;
    a.to_bytes = b.to_bytes;
  }
  add_columns(kSharingColumns, a, b);
}

}  // namespace shadowprof::profile
