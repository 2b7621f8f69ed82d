// SPDX-License-Identifier: MIT
//
// The lists of the user's plug-ins: a line for each of the rows that one has made.
#include <algorithm>

#include "report/plugin_text.h"
#include "report/text_renderer.h"

namespace shadowprof::report {

using profile::HotPlugin;
using profile::PluginCellKind;

void Renderer::plugins() {
  for (size_t number = 0; number < profile_.plugins.size(); number++) {
    const profile::PluginInfo& plugin = profile_.plugins[number];
    std::vector<const HotPlugin*> rows;
    for (const HotPlugin& row : profile_.hotlists.plugins)
      if (row.plugin == plugin.name) rows.push_back(&row);
    if (options_.filtered && rows.empty()) continue;
    heading("Plug-in " + printable(plugin.name));
    sentence(plugin_sums(plugin));
    if (rows.empty()) continue;
    const auto all = static_cast<size_t>(std::ranges::count(
        profile_.tables.plugins, static_cast<uint32_t>(number), &profile::PluginRow::plugin));
    plugin_rows(plugin, rows, all);
  }
}

// Numbers have a width of their own; places and texts share what is left.
void Renderer::plugin_rows(const profile::PluginInfo& plugin,
                           const std::vector<const HotPlugin*>& rows, size_t all) {
  constexpr size_t kFigures = 16, kNumber = 18, kLeast = 12;
  const auto is_wide = [](const profile::PluginColumn& column) {
    return column.kind == PluginCellKind::place || column.kind == PluginCellKind::text;
  };
  const auto wide = static_cast<size_t>(std::ranges::count_if(plugin.columns, is_wide));
  const size_t taken = kFigures + (plugin.columns.size() - wide) * (kNumber + 2) + wide * 2;
  const size_t left_over = columns_ > taken ? columns_ - taken : 0;
  const size_t room = std::max(kLeast, left_over / std::max<size_t>(wide, 1));
  std::string head = fmt::format("  share {:>8}", fit(printable(plugin.weight), 8));
  for (const auto& column : plugin.columns)
    head += "  " + left(printable(column.name), is_wide(column) ? room : kNumber);
  while (head.ends_with(' ')) head.pop_back();
  line(head);
  const size_t shown = std::min(options_.limit, rows.size());
  for (size_t i = 0; i < shown; i++) {
    const HotPlugin& row = *rows[i];
    std::string cells;
    for (size_t c = 0; c < std::min(row.cells.size(), plugin.columns.size()); c++) {
      const profile::PluginColumn& column = plugin.columns[c];
      const HotPlugin::Cell& cell = row.cells[c];
      const size_t space = is_wide(column) ? room : kNumber;
      cells +=
          "  " + left(cell.place ? point_of(*cell.place, space) : plugin_cell(column, cell), space);
    }
    while (cells.ends_with(' ')) cells.pop_back();
    const std::string figures =
        fmt::format("{:>7} {:>8}", percent(row.share), short_count(row.weight));
    line(colored(row.share, figures) + cells);
  }
  more(shown, rows.size(), all);
}

}  // namespace shadowprof::report
