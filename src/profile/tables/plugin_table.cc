// SPDX-License-Identifier: MIT
#include "profile/tables/plugin_table.h"

#include <algorithm>
#include <iterator>

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

using Texts = std::vector<std::string>;

Texts united(const Texts& a, const Texts& b) {
  Texts all;
  std::ranges::set_union(a, b, std::back_inserter(all));
  return all;
}

PluginList::const_iterator find_same(const PluginList& all, const PluginInfo& plugin) {
  return std::ranges::find_if(all,
                              [&](const PluginInfo& info) { return info.same() == plugin.same(); });
}

void renumber(PluginTable& rows, const PluginList& were, const PluginList& are) {
  for (PluginRow& row : rows) {
    const PluginInfo& was = were[row.plugin];
    const auto is = find_same(are, was);
    row.plugin = static_cast<uint32_t>(is - are.begin());
    for (size_t c = 0; c < row.cells.size(); c++) {
      if (is->columns[c].kind != PluginCellKind::text) continue;
      const auto text = std::ranges::lower_bound(is->texts, was.texts[row.cells[c].number]);
      row.cells[c].number = static_cast<uint64_t>(text - is->texts.begin());
    }
  }
}

}  // namespace

void add_plugins(PluginList& into, PluginTable& into_rows, const PluginList& from,
                 PluginTable& from_rows) {
  if (from.empty()) return;
  PluginList all = into;
  for (const PluginInfo& plugin : from) {
    const auto found = find_same(all, plugin);
    if (found == all.end()) {
      all.push_back(plugin);
      continue;
    }
    PluginInfo& known = all[static_cast<size_t>(found - all.begin())];
    add_columns(kPluginInfoColumns, known, plugin);
    known.file = std::min(known.file, plugin.file);
    known.texts = united(known.texts, plugin.texts);
    known.problems = united(known.problems, plugin.problems);
  }
  std::ranges::sort(all,
                    [](const PluginInfo& a, const PluginInfo& b) { return a.same() < b.same(); });
  renumber(into_rows, into, all);
  renumber(from_rows, from, all);
  into = std::move(all);
}

bool is_row_of_one(const PluginRow& row, const PluginList& plugins) {
  if (row.plugin >= plugins.size()) return false;
  const PluginInfo& plugin = plugins[row.plugin];
  if (row.cells.size() != plugin.columns.size()) return false;
  for (size_t c = 0; c < row.cells.size(); c++) {
    const PluginCellKind kind = plugin.columns[c].kind;
    if (row.cells[c].is_place != (kind == PluginCellKind::place)) return false;
    if (kind == PluginCellKind::text && row.cells[c].number >= plugin.texts.size()) return false;
  }
  return true;
}

}  // namespace shadowprof::profile
