// SPDX-License-Identifier: MIT
//
// The ranking of what the user's plug-ins have made: each plug-in has a ranking of its own.
#include <algorithm>

#include "profile/hotlists/hotlist_rows.h"

namespace shadowprof::profile {
namespace {

HotPlugin::Cell shown(const Profile& profile, const LineLookup& lines, const PluginInfo& plugin,
                      const PluginRow& row, size_t column) {
  const PluginCell& cell = row.cells[column];
  switch (plugin.columns[column].kind) {
    case PluginCellKind::text:
      return {.text = plugin.texts[cell.number]};
    case PluginCellKind::place:
      return {.place = place_of(profile, lines, {cell.module, cell.number})};
    default:
      return {.number = cell.number};
  }
}

}  // namespace

void add_plugin_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                        Hotlists& lists) {
  for (uint32_t number = 0; number < profile.plugins.size(); number++) {
    const PluginInfo& plugin = profile.plugins[number];
    std::vector<const PluginRow*> rows;
    uint64_t whole = plugin.others;
    for (const PluginRow& row : profile.tables.plugins) {
      if (row.plugin != number) continue;
      rows.push_back(&row);
      whole += row.weight;
    }
    uint32_t rank = 0;
    for (const size_t i : hottest(rows, limit, [](const PluginRow* row) { return row->weight; })) {
      HotPlugin hot{.rank = ++rank, .plugin = plugin.name, .weight = rows[i]->weight};
      hot.share = share_of(hot.weight, whole);
      for (size_t c = 0; c < plugin.columns.size(); c++)
        hot.cells.push_back(shown(profile, lines, plugin, *rows[i], c));
      lists.plugins.push_back(std::move(hot));
    }
  }
}

}  // namespace shadowprof::profile
