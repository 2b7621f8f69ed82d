// SPDX-License-Identifier: MIT
//
// The columns of a profile's tables, as data. A table is described once, beside its row type.
// Reading (json_read_tables.cc), writing (json_write_tables.cc), adding, multiplying and
// renumbering modules (table_rows.h) follow from the description; a test compares it with
// docs/profile.schema.json.
//
//   inline constexpr Columns kEntryColumns{
//       code_place<&Entry::at>("module", "offset"),
//       column<&Entry::invocations>("invocations").sum(),
//       column<&Entry::inclusive>("inclusive").sum(),
//   };
//   inline constexpr TableLayout<Entry> kEntryLayout{
//       .name = "entries", .title = "entries", .columns = kEntryColumns};
//
// tables.h lists all tables. A column's place in the file is its place in the list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "profile/tables/module_table.h"

namespace shadowprof::profile {

enum class Stored : uint8_t {
  always,       // required
  newer,        // always written; profiles of earlier versions lack it, and have 0
  with_errors,  // written in profiles that know their errors; elsewhere 0
  if_any,       // written where a row has it; elsewhere 0
};

// What becomes of a number when two rows with the same key become one, and when a profile is added
// with a weight.
enum class Merging : uint8_t {
  kept,      // both rows have the same, or the layout's `join` decides; a weight changes nothing
  sum,       // added; multiplied by a weight
  once,      // added; a weight changes nothing
  error,     // a standard error: added as such (confidence.h), multiplied by a weight
  greatest,  // the greater one; a weight changes nothing
};

// Names for the numbers of a column. The file lists them, so that it can be read by a version with
// other numbers.
struct NameList {
  const char* list;  // its name in the table
  std::span<const char* const> words;
  const char* what;  // "is no kind of edge"
};

template <typename Row>
struct Column {
  using Test = bool (*)(const Row&);

  const char* name = nullptr;
  // Both null: a list of names stands here. When a row is read, set() is called in the order of the
  // columns.
  uint64_t (*get)(const Row&) = nullptr;
  void (*set)(Row&, uint64_t) = nullptr;
  uint64_t most = std::numeric_limits<uint64_t>::max();
  const char* beyond = "is too large";  // what a greater number is
  const NameList* names = nullptr;
  Stored stored = Stored::always;
  Test has = nullptr;  // with Stored::if_any
  Merging merging = Merging::kept;
  // An index into the module table, in the rows for which `used` holds (null: in all).
  bool is_module = false;
  Test used = nullptr;

  constexpr bool is_list() const { return get == nullptr; }
  constexpr bool is_multiplied() const {
    return merging == Merging::sum || merging == Merging::error;
  }

  // The same column with another property.
  constexpr Column sum() const { return merged(Merging::sum); }
  constexpr Column once() const { return merged(Merging::once); }
  constexpr Column error() const { return merged(Merging::error); }
  constexpr Column greatest() const { return merged(Merging::greatest); }
  constexpr Column merged(Merging how) const {
    Column c = *this;
    c.merging = how;
    return c;
  }
  constexpr Column newer() const { return stored_as(Stored::newer); }
  constexpr Column with_errors() const { return stored_as(Stored::with_errors); }
  constexpr Column if_any(Test test) const { return stored_as(Stored::if_any, test); }
  constexpr Column stored_as(Stored when, Test test = nullptr) const {
    Column c = *this;
    c.stored = when;
    c.has = test;
    return c;
  }
  constexpr Column below(uint64_t end, const char* otherwise) const {
    Column c = *this;
    c.most = end - 1;
    c.beyond = otherwise;
    return c;
  }
  constexpr Column module_if(Test test) const {
    Column c = *this;
    c.is_module = true;
    c.used = test;
    return c;
  }
};

// A place within a row: members of members, and elements of arrays.
template <auto First, auto... Rest>
struct MemberPath {
  template <typename Object>
  static constexpr auto& of(Object& object) {
    if constexpr (sizeof...(Rest) == 0)
      return step(object);
    else
      return MemberPath<Rest...>::of(step(object));
  }

 private:
  template <typename Object>
  static constexpr auto& step(Object& object) {
    if constexpr (std::is_member_object_pointer_v<decltype(First)>)
      return object.*First;
    else
      return object[First];
  }
};

template <typename Pointer>
struct MemberOf;
template <typename Value, typename Class>
struct MemberOf<Value Class::*> {
  using Row = Class;
};
template <auto First>
using RowOf = typename MemberOf<decltype(First)>::Row;

// The number at a place within a row, whose type limits it; any number but 0 is true.
template <auto First, auto... Rest>
constexpr Column<RowOf<First>> number_at(const char* name) {
  using Row = RowOf<First>;
  using Path = MemberPath<First, Rest...>;
  using Value = std::remove_cvref_t<decltype(Path::of(std::declval<Row&>()))>;
  Column<Row> c;
  c.name = name;
  c.get = [](const Row& row) { return static_cast<uint64_t>(Path::of(row)); };
  c.set = [](Row& row, uint64_t number) {
    if constexpr (std::is_same_v<Value, bool>)
      Path::of(row) = number != 0;
    else
      Path::of(row) = static_cast<Value>(number);
  };
  if constexpr (!std::is_same_v<Value, bool> && !std::is_enum_v<Value>)
    c.most = std::numeric_limits<Value>::max();
  return c;
}

template <auto First, auto... Rest>
constexpr Column<RowOf<First>> column(const char* name) {
  using Value = decltype(MemberPath<First, Rest...>::of(std::declval<RowOf<First>&>()));
  static_assert(!std::is_enum_v<std::remove_cvref_t<Value>>, "use choice() or named()");
  return number_at<First, Rest...>(name);
}

// Is there something other than 0, false or nothing at a place within a row?
template <auto First, auto... Rest>
bool is_set(const RowOf<First>& row) {
  return static_cast<bool>(MemberPath<First, Rest...>::of(row));
}

// One of `end` values of an enumeration, by its number.
template <auto First, auto... Rest>
constexpr Column<RowOf<First>> choice(const char* name, size_t end, const char* otherwise) {
  return number_at<First, Rest...>(name).below(end, otherwise);
}

// The same by the place of its name in the list that name_list() puts into the table.
template <auto First, auto... Rest>
constexpr Column<RowOf<First>> named(const char* name, const NameList& names) {
  Column<RowOf<First>> c = number_at<First, Rest...>(name);
  c.names = &names;
  return c;
}
template <typename Row>
constexpr Column<Row> name_list(const NameList& names) {
  Column<Row> c;
  c.name = names.list;
  c.names = &names;
  return c;
}

// The two columns of a place in code, or of one that only the rows have for which `used` holds.
template <auto First, auto... Rest>
constexpr std::array<Column<RowOf<First>>, 2> code_place(
    const char* module, const char* offset, bool (*used)(const RowOf<First>&) = nullptr) {
  return {number_at<First, Rest..., &CodeRef::module>(module).module_if(used),
          number_at<First, Rest..., &CodeRef::offset>(offset)};
}

template <typename Part>
struct ColumnsIn {
  using Row = typename Part::Row;
  static constexpr size_t kCount = Part::kCount;
};
template <typename R>
struct ColumnsIn<Column<R>> {
  using Row = R;
  static constexpr size_t kCount = 1;
};
template <typename R, size_t N>
struct ColumnsIn<std::array<Column<R>, N>> {
  using Row = R;
  static constexpr size_t kCount = N;
};

// One list of columns and lists of columns.
template <typename Part, typename... Parts>
struct Columns : std::array<Column<typename ColumnsIn<Part>::Row>,
                            (ColumnsIn<Part>::kCount + ... + ColumnsIn<Parts>::kCount)> {
  using Row = typename ColumnsIn<Part>::Row;
  static constexpr size_t kCount = (ColumnsIn<Part>::kCount + ... + ColumnsIn<Parts>::kCount);

  constexpr explicit Columns(const Part& first, const Parts&... parts) {
    size_t n = 0;
    append(first, n);
    (append(parts, n), ...);
  }

 private:
  constexpr void append(const Column<Row>& column, size_t& n) { (*this)[n++] = column; }
  template <size_t N>
  constexpr void append(const std::array<Column<Row>, N>& columns, size_t& n) {
    for (const Column<Row>& c : columns) append(c, n);
  }
};

// A list that each row has: in the file a table of its own, whose first column says the row. The
// steps lead from the row to a std::vector.
template <auto First, auto... Rest>
struct ChildTable {
  using Row = RowOf<First>;
  using List = std::remove_cvref_t<decltype(MemberPath<First, Rest...>::of(std::declval<Row&>()))>;
  using Element = typename List::value_type;

  const char* name;
  const char* row;  // the first column
  std::span<const Column<Element>> columns;
  size_t most_written = std::numeric_limits<size_t>::max();  // of each row, the first ones

  static List& of(Row& row) { return MemberPath<First, Rest...>::of(row); }
  static const List& of(const Row& row) { return MemberPath<First, Rest...>::of(row); }
};

enum class Written : uint8_t {
  always,         // required
  with_rows,      // where it has rows
  with_previous,  // where the table before it in the list is
};

template <typename RowType, typename... Children>
struct TableLayout {
  using Row = RowType;

  const char* name;   // in the file
  const char* title;  // in sentences: "row 3 of the table of cache lines"
  std::span<const Column<Row>> columns;
  Written written = Written::with_rows;
  // Makes b part of a, which has the same key. Null: what the columns say is all.
  void (*join)(Row& a, const Row& b) = nullptr;
  std::tuple<Children...> children{};
};

}  // namespace shadowprof::profile
