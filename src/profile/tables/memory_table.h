// SPDX-License-Identifier: MIT
//
// Profiles by what memory was accessed: the cache lines of all loads and stores, and, of timed
// loads that the first cache did not serve, pages and values by the class of latency.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "profile/tables/column.h"
#include "profile/tables/latency_table.h"
#include "profile/tables/module_table.h"

namespace shadowprof::profile {

inline constexpr uint64_t kCacheLineBytes = 64;

// Data of a module (a file that code was mapped from too), or an address that means something in
// one run only.
struct DataRef {
  bool in_module = false;
  CodeRef at;  // not in a module: module 0, and the address as offset
  auto operator<=>(const DataRef&) const = default;
};

// The hottest ones of one load. Older profiles do not say of which: `load` is nothing there.
struct LatencyPageRow {
  LatencyClass level = LatencyClass::l1;
  DataRef page;
  uint64_t count = 0;  // timed loads; an estimate where there are many pages
  std::optional<CodeRef> load{};
  auto key() const { return std::tuple(level, load, page); }
};

struct LatencyValueRow {
  LatencyClass level = LatencyClass::l1;
  uint64_t value = 0;  // zero-extended
  uint64_t count = 0;
  std::optional<CodeRef> load{};
  auto key() const { return std::tuple(level, load, value); }
};

struct CacheLineRow {
  DataRef line;
  uint64_t loads = 0;
  uint64_t stores = 0;
  uint64_t accesses() const { return loads + stores; }
  const DataRef& key() const { return line; }
};

using LatencyPageTable = std::vector<LatencyPageRow>;    // by class, load, page; unique
using LatencyValueTable = std::vector<LatencyValueRow>;  // by class, load, value; unique
using CacheLineTable = std::vector<CacheLineRow>;        // by line; unique

// Three columns: in a module or not; the module; the offset, or the address.
template <auto Member>
constexpr auto data_place() {
  return Columns{
      column<Member, &DataRef::in_module>("in_module"),
      code_place<Member, &DataRef::at>("module", "offset", is_set<Member, &DataRef::in_module>),
  };
}

// Three columns: whether it is known of which load the row is, and that load's place.
template <typename Row>
constexpr auto load_of() {
  return Columns{
      Column<Row>{.name = "of_load",
                  .get = [](const Row& row) { return uint64_t{row.load.has_value()}; },
                  .set =
                      [](Row& row, uint64_t known) {
                        if (known != 0) row.load.emplace();
                      }}
          .newer(),
      Column<Row>{
          .name = "load_module",
          .get = [](const Row& row) { return uint64_t{row.load.value_or(CodeRef{}).module}; },
          .set =
              [](Row& row, uint64_t module) {
                if (row.load) row.load->module = static_cast<uint32_t>(module);
              },
          .most = UINT32_MAX}
          .newer()
          .module_if(is_set<&Row::load>),
      Column<Row>{.name = "load_offset",
                  .get = [](const Row& row) { return row.load.value_or(CodeRef{}).offset; },
                  .set =
                      [](Row& row, uint64_t offset) {
                        if (row.load) row.load->offset = offset;
                      }}
          .newer(),
  };
}

inline constexpr Columns kLatencyPageColumns{
    choice<&LatencyPageRow::level>("class", kLatencyClasses, "is no class of latency"),
    data_place<&LatencyPageRow::page>(),
    column<&LatencyPageRow::count>("count").sum(),
    load_of<LatencyPageRow>(),
};
inline constexpr TableLayout<LatencyPageRow> kLatencyPageLayout{.name = "latency_pages",
                                                                .title = "pages of loads",
                                                                .columns = kLatencyPageColumns,
                                                                .written = Written::with_previous};

inline constexpr Columns kLatencyValueColumns{
    choice<&LatencyValueRow::level>("class", kLatencyClasses, "is no class of latency"),
    column<&LatencyValueRow::value>("value"),
    column<&LatencyValueRow::count>("count").sum(),
    load_of<LatencyValueRow>(),
};
inline constexpr TableLayout<LatencyValueRow> kLatencyValueLayout{
    .name = "latency_values",
    .title = "values of loads",
    .columns = kLatencyValueColumns,
    .written = Written::with_previous};

inline constexpr Columns kCacheLineColumns{
    data_place<&CacheLineRow::line>(),
    column<&CacheLineRow::loads>("loads").sum(),
    column<&CacheLineRow::stores>("stores").sum(),
};
inline constexpr TableLayout<CacheLineRow> kCacheLineLayout{
    .name = "cache_lines", .title = "cache lines", .columns = kCacheLineColumns};

// What the table of cache lines holds.
struct AccessCounts {
  bool collected = false;
  uint64_t accesses = 0;     // of known address
  uint64_t lines = 0;        // different ones that were not pruned
  uint64_t pruned = 0;       // accesses that no row has, so that memory and file stay bounded
  uint64_t error_bound = 0;  // no line that was accessed more often is missing, or too low by more
  uint64_t unknown = 0;      // accesses whose address is not in a trace
};
inline constexpr Columns kAccessCountColumns{
    column<&AccessCounts::accesses>("known").sum(),
    column<&AccessCounts::lines>("lines").once(),
    column<&AccessCounts::pruned>("pruned").sum(),
    column<&AccessCounts::error_bound>("error_bound").sum(),
    column<&AccessCounts::unknown>("unknown").sum(),
};

// Leaves the most accessed `rows` of `lines`, in no order; `counts` says what the others had.
template <typename Line>
void keep_hottest(std::vector<Line>& lines, size_t rows, AccessCounts& counts) {
  if (lines.size() <= rows) return;
  const auto end = lines.begin() + static_cast<ptrdiff_t>(rows);
  std::nth_element(lines.begin(), end, lines.end(), [](const Line& a, const Line& b) {
    return a.accesses() != b.accesses() ? a.accesses() > b.accesses() : a.line < b.line;
  });
  for (auto line = end; line != lines.end(); ++line) {
    counts.pruned += line->accesses();
    counts.error_bound = std::max(counts.error_bound, line->accesses());
  }
  lines.erase(end, lines.end());
}

void add_access_counts(AccessCounts& into, const AccessCounts& from);

struct Profile;
// Leaves the most accessed lines; the others' accesses become pruned ones.
void keep_hottest_lines(Profile& profile, size_t rows);

}  // namespace shadowprof::profile
