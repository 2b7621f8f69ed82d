// SPDX-License-Identifier: MIT
#include "report/plugin_text.h"

#include <fmt/format.h>

#include "report/columns.h"

namespace shadowprof::report {

std::string plugin_cell(const profile::PluginColumn& column, const profile::HotPlugin::Cell& cell) {
  if (cell.text) return printable(*cell.text);
  return column.kind == profile::PluginCellKind::address ? fmt::format("{:#x}", cell.number)
                                                         : fmt::format("{}", cell.number);
}

std::string plugin_sums(const profile::PluginInfo& plugin) {
  std::string text = fmt::format("{}, given {} records", printable(file_name(plugin.file)),
                                 short_count(plugin.records));
  if (plugin.samples_left_out != 0)
    text += fmt::format("; {} samples left out, as it was too slow",
                        short_count(plugin.samples_left_out));
  if (plugin.samples_cut != 0)
    text += fmt::format("; {} samples cut short", short_count(plugin.samples_cut));
  if (plugin.others != 0)
    text += fmt::format("; {} in rows that there was no room for", short_count(plugin.others));
  for (const std::string& problem : plugin.problems) text += "; " + printable(problem);
  return text;
}

}  // namespace shadowprof::report
