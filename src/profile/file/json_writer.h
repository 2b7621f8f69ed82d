// SPDX-License-Identifier: MIT
//
// What writing a profile file is made of. For json_write*.cc alone. Small parts are built as JSON
// values; tables, functions and hotlists go row by row (or column by column) to the file, so memory
// does not depend on their size.
#pragma once

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "profile/profile.h"

namespace shadowprof::profile::json {

using OrderedJson = nlohmann::ordered_json;

class TextSink {
 public:
  virtual ~TextSink() = default;
  virtual void write(std::string_view text) = 0;
};

// Writes the parts of a JSON document in order.
class Writer {
 public:
  explicit Writer(TextSink& out) : out_(out) {}

  void open(const char* name = nullptr) { begin(name, "{"); }
  void close() {
    out_.write("}");
    first_ = false;
  }
  void value(const char* name, const OrderedJson& v) {
    begin(name, text_of(v));
    first_ = false;
  }

  // make(row): its JSON.
  template <typename Rows, typename Make>
  void rows(const char* name, const Rows& all, Make make) {
    begin(name, "[");
    for (const auto& row : all) {
      out_.write(first_ ? "\n" : ",\n");
      out_.write(text_of(make(row)));
      first_ = false;
    }
    out_.write("]");
    first_ = false;
  }

  template <typename Rows, typename Get>
  void column(const char* name, const Rows& all, Get get) {
    begin(name, "[");
    std::string some;
    char digits[24];
    for (const auto& row : all) {
      char* at = digits;
      if (!first_) *at++ = ',';
      first_ = false;
      at = std::to_chars(at, digits + sizeof(digits), static_cast<uint64_t>(get(row))).ptr;
      some.append(digits, at);
      if (some.size() < kMostAtOnce) continue;
      out_.write(some);
      some.clear();
    }
    out_.write(some);
    out_.write("]");
    first_ = false;
  }

 private:
  static constexpr size_t kMostAtOnce = 1 << 16;

  static std::string text_of(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }

  void begin(const char* name, std::string_view text) {
    if (name != nullptr) {
      out_.write(first_ ? "\n\"" : ",\n\"");
      out_.write(name);
      out_.write("\":");
    }
    out_.write(text);
    first_ = true;
  }

  TextSink& out_;
  bool first_ = true;
};

// json_write_hotlists.cc
void write_hotlists(Writer& w, const char* name, const Hotlists& hotlists);
// json_write_tables.cc. `errors`: there are any.
void write_tables(Writer& w, const Tables& tables, bool errors);

}  // namespace shadowprof::profile::json
