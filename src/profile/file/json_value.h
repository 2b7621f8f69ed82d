// SPDX-License-Identifier: MIT
//
// A JSON document as json_read*.cc want it: parsed piece by piece, within limits. Lists of counts,
// which most of a profile consists of, take as many bytes a number as their largest one needs.
//
// A file may come from anywhere, and be made to cost memory or time. It is refused when it is
// larger than what follows; the relations are those of real profiles, with a factor of ten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shadowprof::profile::json {

inline constexpr size_t kMaxDepth = 32;  // lists and objects within each other
inline constexpr size_t kMaxRows = size_t{1} << 24;        // of one list
inline constexpr size_t kMaxNumbers = size_t{1} << 27;     // in all lists together
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;   // of one string
inline constexpr size_t kMaxTreeBytes = size_t{1} << 30;   // of all else that is kept

// What is wrong with a file.
struct Bad {
  std::string what;
};

// A list of counts.
class Numbers {
 public:
  void push_back(uint64_t number);
  size_t size() const { return bytes_.size() >> shift_; }
  bool empty() const { return bytes_.empty(); }
  uint64_t operator[](size_t i) const;

 private:
  void widen();
  std::vector<uint8_t> bytes_;
  unsigned shift_ = 0;  // 1 << shift_ bytes a number
};

class Json {
 public:
  using List = std::vector<Json>;
  using Members = std::map<std::string, Json>;

  Json() = default;
  template <typename T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, Json>)
  explicit Json(T value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const uint64_t* count() const { return std::get_if<uint64_t>(&value_); }
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const Members* members() const;
  // A list has numbers alone, or anything else; an empty one is both.
  const Numbers* numbers() const;
  const List* list() const;
  bool is_integer() const { return count() != nullptr || std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  // For values that are is_number() or is_integer().
  double number() const;
  int64_t integer() const;

 private:
  friend class TreeBuilder;
  std::variant<std::monostate, bool, uint64_t, int64_t, double, std::string, std::unique_ptr<List>,
               std::unique_ptr<Numbers>, std::unique_ptr<Members>>
      value_;
};

// Text that comes in pieces.
class TextPieces {
 public:
  virtual ~TextPieces() = default;
  // The next piece, valid until the next call; empty at the end. Throws Bad.
  virtual std::string_view next() = 0;
};

// Throws Bad.
Json parse(TextPieces& text);

}  // namespace shadowprof::profile::json
