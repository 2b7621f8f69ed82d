// SPDX-License-Identifier: MIT
//
// What reading a profile file is made of. For json_read*.cc alone: what is wrong with a file is an
// exception there, which does not leave them.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "profile/profile.h"

namespace shadowprof::profile::json {

using Json = nlohmann::json;

struct Bad {
  std::string what;
};

// A JSON object and where it stands in the document.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw Bad{where_ + " is not an object"};
  }

  std::string where(const std::string& key) const {
    return where_.empty() ? key : where_ + "." + key;
  }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const std::string& key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) throw Bad{where(key) + " is missing"};
    return *it;
  }
  Object object(const std::string& key) const { return Object(at(key), where(key)); }
  const Json& array(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_array()) throw Bad{where(key) + " is not a list"};
    return j;
  }
  std::string text(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_string()) throw Bad{where(key) + " is not a string"};
    return j.get<std::string>();
  }
  std::string text_or_empty(const char* key) const { return has(key) ? text(key) : std::string(); }
  bool boolean(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_boolean()) throw Bad{where(key) + " is not true or false"};
    return j.get<bool>();
  }
  double number(const std::string& key) const {
    const Json& j = at(key);
    if (!j.is_number()) throw Bad{where(key) + " is not a number"};
    return j.get<double>();
  }
  uint64_t count(const std::string& key) const { return count_of(at(key), where(key)); }
  uint32_t small(const std::string& key) const { return small_of(at(key), where(key)); }
  std::map<std::string, uint64_t> counts(const std::string& key) const {
    std::map<std::string, uint64_t> result;
    const Object all = object(key);
    for (const auto& [name, value] : all.json_.items())
      result[name] = count_of(value, all.where(name));
    return result;
  }
  const Json& json() const { return json_; }

  static uint64_t count_of(const Json& j, const std::string& where) {
    if (!j.is_number_unsigned()) throw Bad{where + " is not a count"};
    return j.get<uint64_t>();
  }
  static uint32_t small_of(const Json& j, const std::string& where) {
    const uint64_t value = count_of(j, where);
    if (value > std::numeric_limits<uint32_t>::max()) throw Bad{where + " is too large"};
    return static_cast<uint32_t>(value);
  }

 private:
  const Json& json_;
  std::string where_;
};

// A column that not all profiles have: an error of 0 then.
class OptionalColumn {
 public:
  OptionalColumn(const Object& table, const char* name, size_t rows) {
    if (!table.has(name)) return;
    column_ = &table.array(name);
    where_ = table.where(name);
    if (column_->size() != rows) throw Bad{where_ + " is not as long as the other columns"};
  }
  uint64_t count(size_t row) const {
    if (column_ == nullptr) return 0;
    return Object::count_of((*column_)[row], where_);
  }

 private:
  const Json* column_ = nullptr;
  std::string where_;
};

// A table of columns: all of one length.
class Columns {
 public:
  Columns(const Object& table, std::vector<const char*> names) : table_(table) {
    for (const char* name : names) {
      columns_.push_back(&table.array(name));
      if (columns_.back()->size() != columns_.front()->size())
        throw Bad{table.where(name) + " is not as long as the other columns"};
    }
    names_ = std::move(names);
  }
  size_t rows() const { return columns_.front()->size(); }
  uint64_t count(size_t column, size_t row) const {
    const Json& j = (*columns_[column])[row];
    if (!j.is_number_unsigned()) throw Bad{where(column, row) + " is not a count"};
    return j.get<uint64_t>();
  }
  uint32_t small(size_t column, size_t row) const {
    const uint64_t value = count(column, row);
    if (value > std::numeric_limits<uint32_t>::max())
      throw Bad{where(column, row) + " is too large"};
    return static_cast<uint32_t>(value);
  }
  CodeRef place(size_t module_column, size_t row) const {
    return {small(module_column, row), count(module_column + 1, row)};
  }

 private:
  std::string where(size_t column, size_t row) const {
    return fmt::format("{}[{}]", table_.where(names_[column]), row);
  }

  const Object& table_;
  std::vector<const char*> names_;
  std::vector<const Json*> columns_;
};

template <typename Row, typename Read>
std::vector<Row> read_rows(const Object& parent, const char* key, Read read) {
  std::vector<Row> rows;
  const Json& all = parent.array(key);
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
