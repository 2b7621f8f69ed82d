// SPDX-License-Identifier: MIT
//
// What reading a profile file is made of. For json_read*.cc alone: what is wrong with a file is an
// exception there, which does not leave them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "profile/file/json_value.h"
#include "profile/profile.h"
#include "profile/tables/column.h"

namespace shadowprof::profile::json {

// A number that may be negative fits when it is negated, too.
inline constexpr auto kMostMagnitude = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// A JSON object and where it stands in the document.
class Object {
 public:
  Object(const Json& json, std::string where) : members_(json.members()), where_(std::move(where)) {
    if (members_ == nullptr) throw Bad{where_ + " is not an object"};
  }

  std::string where(const std::string& key) const {
    return where_.empty() ? key : where_ + "." + key;
  }
  bool has(const std::string& key) const { return members_->contains(key); }
  const Json& at(const std::string& key) const {
    const auto it = members_->find(key);
    if (it == members_->end()) throw Bad{where(key) + " is missing"};
    return it->second;
  }
  Object object(const std::string& key) const { return Object(at(key), where(key)); }
  const Json::List& list(const std::string& key) const {
    const Json::List* list = at(key).list();
    if (list == nullptr) throw Bad{where(key) + " is not a list of what it should be"};
    return *list;
  }
  // A list of counts.
  const Numbers& column(const std::string& key) const {
    if (const Numbers* numbers = at(key).numbers()) return *numbers;
    if (const Json::List* list = at(key).list())
      for (size_t i = 0; i < list->size(); i++)
        if ((*list)[i].count() == nullptr)
          throw Bad{fmt::format("{}[{}] is not a count", where(key), i)};
    throw Bad{where(key) + " is not a list"};
  }
  std::string text(const std::string& key) const {
    const std::string* text = at(key).text();
    if (text == nullptr) throw Bad{where(key) + " is not a string"};
    return *text;
  }
  std::string text_or_empty(const char* key) const { return has(key) ? text(key) : std::string(); }
  uint64_t count_or_zero(const char* key) const { return has(key) ? count(key) : 0; }
  uint32_t small_or_zero(const char* key) const { return has(key) ? small(key) : 0; }
  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> all;
    for (const Json& word : list(key)) {
      if (word.text() == nullptr) throw Bad{where(key) + " has a word that is not a string"};
      all.push_back(*word.text());
    }
    return all;
  }
  bool boolean(const std::string& key) const {
    const bool* value = at(key).boolean();
    if (value == nullptr) throw Bad{where(key) + " is not true or false"};
    return *value;
  }
  double number(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_number()) throw Bad{where(key) + " is not a number"};
    return j.number();
  }
  int64_t integer(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_integer()) throw Bad{where(key) + " is not a number"};
    const uint64_t* count = j.count();
    if (count != nullptr && *count > kMostMagnitude) throw Bad{where(key) + " is too large"};
    if (count == nullptr && j.integer() == std::numeric_limits<int64_t>::min())
      throw Bad{where(key) + " is too small"};
    return j.integer();
  }
  uint64_t count(const std::string& key) const {
    const uint64_t* count = at(key).count();
    if (count == nullptr) throw Bad{where(key) + " is not a count"};
    return *count;
  }
  uint32_t small(const std::string& key) const {
    const uint64_t value = count(key);
    if (value > std::numeric_limits<uint32_t>::max()) throw Bad{where(key) + " is too large"};
    return static_cast<uint32_t>(value);
  }
  // All members, each read by read(this, its name).
  template <typename Read>
  auto map(Read read) const {
    std::map<std::string, decltype(read(*this, std::string()))> result;
    for (const auto& [name, value] : *members_) result.emplace(name, read(*this, name));
    return result;
  }
  Counts counts(const std::string& key) const {
    return object(key).map([](const Object& o, const std::string& name) { return o.count(name); });
  }
  template <typename To, size_t N>
  void counts(const NamedCounts<To> (&all)[N], To& to) const {
    for (const NamedCounts<To>& c : all)
      if (c.required || has(c.name)) to.*c.member = counts(c.name);
  }
  // The members that `columns` name.
  template <typename Columns, typename Row>
  void numbers(const Columns& columns, Row& row) const {
    for (const auto& c : columns) {
      if (c.stored != Stored::always && !has(c.name)) continue;
      const uint64_t value = count(c.name);
      if (value > c.most) throw Bad{fmt::format("{} {}", where(c.name), c.beyond)};
      c.set(row, value);
    }
  }

 private:
  const Json::Members* members_;
  std::string where_;
};

// What the places in a table's list of names mean here.
inline std::vector<uint64_t> meanings_of(const Object& table, const NameList& names) {
  std::vector<uint64_t> meanings;
  for (const std::string& word : table.texts(names.list)) {
    const auto at = std::find(names.words.begin(), names.words.end(), word);
    if (at == names.words.end())
      throw Bad{fmt::format("{} has a word that is no {}", table.where(names.list), names.what)};
    meanings.push_back(static_cast<uint64_t>(at - names.words.begin()));
  }
  return meanings;
}

// The columns that a table of a file has: all of one length.
template <typename Row>
class ColumnReader {
 public:
  ColumnReader(const Object& table, std::span<const Column<Row>> columns) {
    for (const Column<Row>& c : columns) {
      if (c.is_list() || (c.stored != Stored::always && !table.has(c.name))) continue;
      const Numbers& numbers = table.column(c.name);
      if (sources_.empty()) rows_ = numbers.size();
      if (numbers.size() != rows_)
        throw Bad{table.where(c.name) + " is not as long as the other columns"};
      sources_.push_back({&c, &numbers, c.names ? meanings_of(table, *c.names) : Meanings(),
                          table.where(c.name)});
    }
  }
  size_t rows() const { return rows_; }
  Row read(size_t i) const {
    Row row;
    for (const Source& s : sources_) s.column->set(row, number(s, i));
    return row;
  }

 private:
  using Meanings = std::vector<uint64_t>;
  struct Source {
    const Column<Row>* column;
    const Numbers* numbers;
    Meanings meanings;
    std::string where;
  };

  static uint64_t number(const Source& s, size_t i) {
    const uint64_t number = (*s.numbers)[i];
    if (s.column->names != nullptr) {
      if (number >= s.meanings.size())
        throw Bad{
            fmt::format("{}[{}] is not in the list of {}", s.where, i, s.column->names->list)};
      return s.meanings[number];
    }
    if (number > s.column->most)
      throw Bad{fmt::format("{}[{}] {}", s.where, i, s.column->beyond)};
    return number;
  }

  std::vector<Source> sources_;
  size_t rows_ = 0;
};

template <typename Row>
std::vector<Row> read_columns(const Object& table, std::span<const Column<Row>> columns) {
  const ColumnReader<Row> reader(table, columns);
  std::vector<Row> rows;
  rows.reserve(reader.rows());
  for (size_t i = 0; i < reader.rows(); i++) rows.push_back(reader.read(i));
  return rows;
}

template <typename Row, typename Read>
std::vector<Row> read_rows(const Object& parent, const char* key, Read read) {
  std::vector<Row> rows;
  const Json::List& all = parent.list(key);
  rows.reserve(all.size());
  for (size_t i = 0; i < all.size(); i++)
    rows.push_back(read(Object(all[i], fmt::format("{}[{}]", parent.where(key), i))));
  return rows;
}

inline EdgeKind read_kind(const std::string& name, const std::string& where) {
  const auto kind = edge_kind_from(name);
  if (!kind) throw Bad{where + " is not a kind of edge"};
  return *kind;
}

inline AddressKind read_address_kind(const std::string& name, const std::string& where) {
  const auto kind = address_kind_from(name);
  if (!kind) throw Bad{where + " is no kind of address"};
  return *kind;
}

// json_read_hotlists.cc
Hotlists read_hotlists(const Object& o);
// json_read_tables.cc
Tables read_tables(const Object& o);

}  // namespace shadowprof::profile::json
