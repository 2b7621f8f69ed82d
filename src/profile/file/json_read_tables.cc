// SPDX-License-Identifier: MIT
//
// The tables of a profile file, as tables.h lists them: columns of numbers.
#include "profile/file/json_object.h"

namespace shadowprof::profile::json {
namespace {

template <typename Row, typename Child>
void read_child(const Object& tables, const Child& child, std::vector<Row>& rows) {
  const Object table = tables.object(child.name);
  const ColumnReader<typename Child::Element> reader(table, child.columns);
  const Numbers& row_numbers = table.column(child.row);
  if (row_numbers.size() != reader.rows())
    throw Bad{table.where(child.row) + " is not as long as the other columns"};
  for (size_t i = 0; i < reader.rows(); i++) {
    const uint64_t row = row_numbers[i];
    if (row >= rows.size())
      throw Bad{fmt::format("{}[{}] is not a row", table.where(child.row), i)};
    child.of(rows[row]).push_back(reader.read(i));
  }
}

template <typename Row, typename... Children>
void read_table(const Object& tables, const TableLayout<Row, Children...>& layout,
                std::vector<Row>& rows) {
  if (layout.written != Written::always && !tables.has(layout.name)) return;
  rows = read_columns(tables.object(layout.name), layout.columns);
  std::apply([&](const auto&... child) { (read_child(tables, child, rows), ...); },
             layout.children);
}

}  // namespace

Tables read_tables(const Object& o) {
  Tables tables;
  for_each_table([&](const auto& layout, auto member) { read_table(o, layout, tables.*member); });
  return tables;
}

}  // namespace shadowprof::profile::json
