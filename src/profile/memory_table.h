// SPDX-License-Identifier: MIT
//
// Profiles by what memory was accessed: the cache lines of all loads and stores, and, of timed
// loads that the first cache did not serve, pages and values by the class of latency.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "profile/latency_table.h"
#include "profile/module_table.h"

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
};

struct LatencyValueRow {
  LatencyClass level = LatencyClass::l1;
  uint64_t value = 0;  // zero-extended
  uint64_t count = 0;
  std::optional<CodeRef> load{};
};

struct CacheLineRow {
  DataRef line;
  uint64_t loads = 0;
  uint64_t stores = 0;
  uint64_t accesses() const { return loads + stores; }
};

using LatencyPageTable = std::vector<LatencyPageRow>;    // by class, load, page; unique
using LatencyValueTable = std::vector<LatencyValueRow>;  // by class, load, value; unique
using CacheLineTable = std::vector<CacheLineRow>;        // by line; unique

// What the table of cache lines holds.
struct AccessCounts {
  bool collected = false;
  uint64_t accesses = 0;     // of known address
  uint64_t lines = 0;        // different ones that were not pruned
  uint64_t pruned = 0;       // accesses that no row has, so that memory and file stay bounded
  uint64_t error_bound = 0;  // no line that was accessed more often is missing, or too low by more
  uint64_t unknown = 0;      // accesses whose address is not in a trace
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

struct Tables;
struct Profile;
// Of all tables of this page, the rows of another profile, whose module m is modules[m] here; it has
// none after that.
void add_memory_tables(Tables& into, Tables& from, const std::vector<uint32_t>& modules);
// Leaves the most accessed lines; the others' accesses become pruned ones.
void keep_hottest_lines(Profile& profile, size_t rows);

}  // namespace shadowprof::profile
