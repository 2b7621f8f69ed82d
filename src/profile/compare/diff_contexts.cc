// SPDX-License-Identifier: MIT
//
// Calling contexts of two profiles as one tree. A context is the same in both where its function is
// and its callers are, up to the outermost one; functions are the same as elsewhere in the
// comparison (function_match.h), so what was inlined in one build only is another context.
#include <cmath>
#include <map>
#include <tuple>

#include "profile/compare/diff_side.h"

namespace shadowprof::profile {

ContextChanges compare_contexts(const Side& base, const Side& now) {
  ContextChanges result;
  std::map<std::tuple<uint32_t, ContextKind, Side::Key>, uint32_t> rows;
  std::map<Side::Key, uint32_t> functions;
  std::vector<ChangeError> errors;  // of the rows
  const auto function_index = [&](const Side& side, const Side::Key& key, CodeRef at) {
    const auto [entry, added] =
        functions.try_emplace(key, static_cast<uint32_t>(result.functions.size()));
    if (added) result.functions.emplace_back(side.function_number(at), side.place(at));
    return entry->second;
  };
  for (const Side* side : {&base, &now}) {
    const auto figure = side == &base ? &Change::base : &Change::now;
    const ContextTable& contexts = side->p.tables.contexts;
    std::vector<uint32_t> where(contexts.size());  // callers stand before what they call
    for (size_t i = 0; i < contexts.size(); i++) {
      const ContextRow& row = contexts[i];
      const uint32_t parent = row.parent == kNoContext ? kNoContext : where[row.parent];
      const Side::Key key = is_code(row) ? side->function_key(row.at) : Side::Key{};
      const auto [entry, added] =
          rows.try_emplace({parent, row.kind, key}, static_cast<uint32_t>(result.rows.size()));
      where[i] = entry->second;
      if (added) {
        const uint32_t function = is_code(row) ? function_index(*side, key, row.at) : 0;
        result.rows.push_back({.parent = parent, .kind = row.kind, .function = function});
        errors.emplace_back();
      }
      ContextChange& c = result.rows[where[i]];
      c.self.*figure += side->scaled(row.self);
      c.calls.*figure += side->scaled(row.calls);
      errors[where[i]].add(*side, static_cast<double>(row.error), base);
    }
  }
  for (size_t i = 0; i < errors.size(); i++) result.rows[i].error = errors[i].of_difference();
  return result;
}

}  // namespace shadowprof::profile
