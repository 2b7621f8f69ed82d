// SPDX-License-Identifier: MIT
//
// What can be done with the rows of any table that has a description (column.h). Rows with a key()
// are unique by it; tables whose rows have none are put together by code of their own (canonical.h,
// context_table.h).
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/join_rows.h"
#include "profile/confidence.h"
#include "profile/tables/column.h"

namespace shadowprof::profile {

// Each number by its rule.
template <typename Row>
void add_columns(std::type_identity_t<std::span<const Column<Row>>> columns, Row& a, const Row& b) {
  for (const Column<Row>& c : columns) {
    if (c.merging == Merging::kept) continue;
    const uint64_t x = c.get(a), y = c.get(b);
    if (c.merging == Merging::error)
      c.set(a, added_error(x, y));
    else
      c.set(a, c.merging == Merging::greatest ? std::max(x, y) : x + y);
  }
}

template <typename Row>
void multiply_columns(std::type_identity_t<std::span<const Column<Row>>> columns, Row& row,
                      uint64_t weight) {
  for (const Column<Row>& c : columns)
    if (c.is_multiplied()) c.set(row, c.get(row) * weight);
}

// Sorts rows by key and makes equal ones one.
template <Keyed Row, typename... Children>
void join_equal(const TableLayout<Row, Children...>& layout, std::vector<Row>& rows) {
  // Most tables that are added are like that.
  const auto at_or_behind = [](const Row& a, const Row& b) { return !(a.key() < b.key()); };
  if (std::ranges::adjacent_find(rows, at_or_behind) == rows.end()) return;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key() < b.key(); });
  join_neighbours(rows, [&](Row& a, const Row& b) {
    if (layout.join != nullptr)
      layout.join(a, b);
    else
      add_columns(layout.columns, a, b);
  });
}

// Calls visit(columns, object) for the row and for all that its children have of it.
template <typename Row, typename... Children, typename Object, typename Visit>
void with_children(const TableLayout<Row, Children...>& layout, Object& row, Visit visit) {
  visit(layout.columns, row);
  const auto visit_child = [&](const auto& child) {
    for (auto& element : child.of(row)) visit(child.columns, element);
  };
  std::apply([&](const auto&... child) { (visit_child(child), ...); }, layout.children);
}

template <typename Row, typename... Children>
void multiply_rows(const TableLayout<Row, Children...>& layout, std::vector<Row>& rows,
                   uint64_t weight) {
  for (Row& row : rows)
    with_children(layout, row, [&](const auto& columns, auto& object) {
      multiply_columns(columns, object, weight);
    });
}

// The row's modules get the numbers that `modules` has for them.
template <typename Row, typename... Children>
void renumber_modules(const TableLayout<Row, Children...>& layout, Row& row,
                      const std::vector<uint32_t>& modules) {
  with_children(layout, row, [&](const auto& columns, auto& object) {
    for (const auto& c : columns)
      if (c.is_module && (c.used == nullptr || c.used(object)))
        c.set(object, modules[c.get(object)]);
  });
}

// The first row with a module that is not one of so many.
template <typename Row, typename... Children>
std::optional<size_t> row_without_module(const TableLayout<Row, Children...>& layout,
                                         const std::vector<Row>& rows, size_t modules) {
  for (size_t i = 0; i < rows.size(); i++) {
    bool bad = false;
    with_children(layout, rows[i], [&](const auto& columns, const auto& object) {
      for (const auto& c : columns)
        bad |= c.is_module && (c.used == nullptr || c.used(object)) && c.get(object) >= modules;
    });
    if (bad) return i;
  }
  return std::nullopt;
}

// Appends the sum of each column that a weight multiplies, over all rows.
template <typename Row, typename... Children>
void append_sums(const TableLayout<Row, Children...>& layout, const std::vector<Row>& rows,
                 std::vector<double>& sums) {
  for (const Column<Row>& c : layout.columns) {
    if (!c.is_multiplied()) continue;
    double sum = 0;
    for (const Row& row : rows) sum += static_cast<double>(c.get(row));
    sums.push_back(sum);
  }
}

}  // namespace shadowprof::profile
