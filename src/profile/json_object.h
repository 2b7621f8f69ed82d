// SPDX-License-Identifier: MIT
//
// What reading a profile file is made of. For json_read*.cc alone: what is wrong with a file is an
// exception there, which does not leave them.
#pragma once

#include <fmt/format.h>

#include <limits>

#include "profile/json_value.h"
#include "profile/profile.h"

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
  std::map<std::string, uint64_t> counts(const std::string& key) const {
    std::map<std::string, uint64_t> result;
    const Object all = object(key);
    for (const auto& [name, value] : *all.members_) result[name] = all.count(name);
    return result;
  }
  const Json::Members& members() const { return *members_; }

 private:
  const Json::Members* members_;
  std::string where_;
};

// A column that not all profiles have: an error of 0 then.
class OptionalColumn {
 public:
  OptionalColumn(const Object& table, const char* name, size_t rows) {
    if (!table.has(name)) return;
    column_ = &table.column(name);
    if (column_->size() != rows)
      throw Bad{table.where(name) + " is not as long as the other columns"};
  }
  uint64_t count(size_t row) const { return column_ == nullptr ? 0 : (*column_)[row]; }

 private:
  const Numbers* column_ = nullptr;
};

// A table of columns: all of one length.
class Columns {
 public:
  Columns(const Object& table, std::vector<const char*> names) : table_(table) {
    for (const char* name : names) {
      columns_.push_back(&table.column(name));
      if (columns_.back()->size() != columns_.front()->size())
        throw Bad{table.where(name) + " is not as long as the other columns"};
    }
    names_ = std::move(names);
  }
  size_t rows() const { return columns_.front()->size(); }
  uint64_t count(size_t column, size_t row) const { return (*columns_[column])[row]; }
  uint32_t small(size_t column, size_t row) const {
    const uint64_t value = count(column, row);
    if (value > std::numeric_limits<uint32_t>::max())
      throw Bad{fmt::format("{}[{}] is too large", table_.where(names_[column]), row)};
    return static_cast<uint32_t>(value);
  }
  CodeRef place(size_t module_column, size_t row) const {
    return {small(module_column, row), count(module_column + 1, row)};
  }

 private:
  const Object& table_;
  std::vector<const char*> names_;
  std::vector<const Numbers*> columns_;
};

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

// json_read_tables.cc
Tables read_tables(const Object& o);

}  // namespace shadowprof::profile::json
