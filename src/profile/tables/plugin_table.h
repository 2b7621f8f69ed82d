// SPDX-License-Identifier: MIT
//
// What the user's plug-ins have made of a run (docs/plugins.md): rows of cells with a weight. The
// rows of all plug-ins are one table. Rows with equal cells are one, so all columns are keys, and
// adding profiles adds weights.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class PluginCellKind : uint8_t { number, address, text, place };
inline constexpr const char* kPluginCellKinds[] = {"number", "address", "text", "place"};

struct PluginColumn {
  std::string name;
  PluginCellKind kind = PluginCellKind::number;
  auto operator<=>(const PluginColumn&) const = default;
};

// A plug-in itself, and what its rows are a part of.
struct PluginInfo {
  std::string name;    // of its table
  std::string weight;  // what it calls that of a row
  std::vector<PluginColumn> columns;
  std::string file;                   // as it was given; of several the first by name
  std::vector<std::string> texts;     // that cells name by number; sorted, unique
  std::vector<std::string> problems;  // what went wrong, a sentence each; sorted, unique
  uint64_t records = 0;               // that it was given
  uint64_t samples_left_out = 0;      // whole, as it was too slow
  uint64_t samples_cut = 0;           // from some record on
  uint64_t others = 0;                // weight of rows that there was no room for
  auto same() const { return std::tie(name, weight, columns); }
};
using PluginList = std::vector<PluginInfo>;  // by name, weight and columns

struct PluginCell {
  bool is_place = false;  // in code: `module` and an offset
  uint32_t module = 0;
  uint64_t number = 0;  // of a text: its place in PluginInfo::texts
  // Numbers of modules depend on which profile came first.
  auto key() const { return std::tuple(number, is_place, module); }
  bool operator==(const PluginCell& other) const { return key() == other.key(); }
  auto operator<=>(const PluginCell& other) const { return key() <=> other.key(); }
};

struct PluginRow {
  uint32_t plugin = 0;  // index in Profile::plugins
  std::vector<PluginCell> cells;
  uint64_t weight = 0;
  auto key() const { return std::tuple(plugin, cells); }
};
using PluginTable = std::vector<PluginRow>;  // by plug-in, cells; unique

inline constexpr Columns kPluginInfoColumns{
    column<&PluginInfo::records>("records").sum(),
    column<&PluginInfo::samples_left_out>("samples_left_out").sum(),
    column<&PluginInfo::samples_cut>("samples_cut").sum(),
    column<&PluginInfo::others>("others").sum(),
};
inline constexpr Columns kPluginColumns{
    column<&PluginRow::plugin>("plugin"),
    column<&PluginRow::weight>("weight").sum(),
};
inline constexpr Columns kPluginCellColumns{
    column<&PluginCell::is_place>("is_place"),
    column<&PluginCell::module>("module").module_if(is_set<&PluginCell::is_place>),
    column<&PluginCell::number>("number"),
};
using PluginCells = ChildTable<&PluginRow::cells>;
inline constexpr TableLayout<PluginRow, PluginCells> kPluginLayout{
    .name = "plugins",
    .title = "plug-ins",
    .columns = kPluginColumns,
    .children = {PluginCells{.name = "plugin_cells", .row = "row", .columns = kPluginCellColumns}}};

// Adds those of another profile, whose rows get the numbers that the list then has for them; as do
// the ones of `into`.
void add_plugins(PluginList& into, PluginTable& into_rows, const PluginList& from,
                 PluginTable& from_rows);

// Is this a row of one of the plug-ins, with a cell for each column, and texts that there are?
bool is_row_of_one(const PluginRow& row, const PluginList& plugins);

}  // namespace shadowprof::profile
