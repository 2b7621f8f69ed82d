// SPDX-License-Identifier: MIT
//
// The tables of a profile file, as tables.h lists them: columns of numbers.
#include <algorithm>

#include "profile/file/json_writer.h"

namespace shadowprof::profile::json {
namespace {

OrderedJson words_of(const NameList& names) {
  OrderedJson words = OrderedJson::array();
  for (const char* word : names.words) words.push_back(word);
  return words;
}

template <typename Row>
bool is_written(const Column<Row>& column, const std::vector<Row>& rows, bool errors) {
  switch (column.stored) {
    case Stored::with_errors:
      return errors;
    case Stored::if_any:
      return std::any_of(rows.begin(), rows.end(), column.has);
    case Stored::always:
    case Stored::newer:
      break;
  }
  return true;
}

template <typename Row, typename Child>
void write_child(Writer& w, const Child& child, const std::vector<Row>& rows) {
  using Element = typename Child::Element;
  struct Entry {
    size_t row;
    const Element* element;
  };
  std::vector<Entry> entries;
  for (size_t i = 0; i < rows.size(); i++) {
    const auto& list = child.of(rows[i]);
    for (size_t k = 0; k < std::min(child.most_written, list.size()); k++)
      entries.push_back({i, &list[k]});
  }
  w.open(child.name);
  w.column(child.row, entries, [](const Entry& e) { return e.row; });
  for (const Column<Element>& c : child.columns)
    w.column(c.name, entries, [&](const Entry& e) { return c.get(*e.element); });
  w.close();
}

template <typename Row, typename... Children>
void write_table(Writer& w, const TableLayout<Row, Children...>& layout,
                 const std::vector<Row>& rows, bool errors) {
  w.open(layout.name);
  for (const Column<Row>& c : layout.columns) {
    if (c.is_list())
      w.value(c.name, words_of(*c.names));
    else if (is_written(c, rows, errors))
      w.column(c.name, rows, c.get);
  }
  w.close();
  std::apply([&](const auto&... child) { (write_child(w, child, rows), ...); }, layout.children);
}

}  // namespace

void write_tables(Writer& w, const Tables& tables, bool errors) {
  w.open("tables");
  bool is_there = false;  // the table before
  for_each_table([&](const auto& layout, auto member) {
    const auto& rows = tables.*member;
    if (layout.written != Written::with_previous)
      is_there = layout.written == Written::always || !rows.empty();
    if (is_there) write_table(w, layout, rows, errors);
  });
  w.close();
}

}  // namespace shadowprof::profile::json
