// SPDX-License-Identifier: MIT
// gcc 12 with sanitizers takes the moved-from alternative of a std::variant for one that is read
// (gcc's bug list has several of these); clang and gcc without sanitizers see none.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "profile/file/json_value.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace shadowprof::profile::json {
namespace {

const Json::List kNoList;
const Numbers kNoNumbers;

// All pieces as one sequence of characters, for the parser.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct Source {
    TextPieces& pieces;
    std::string_view rest;
    size_t given = 0;  // characters of pieces that are done

    explicit Source(TextPieces& from) : pieces(from) { refill(); }
    void refill() { rest = pieces.next(); }
  };

  Characters() = default;
  explicit Characters(Source& source) : source_(&source) {}
  reference operator*() const { return source_->rest.front(); }
  Characters& operator++() {
    source_->given++;
    source_->rest.remove_prefix(1);
    if (source_->rest.empty()) source_->refill();
    return *this;
  }
  Characters operator++(int) {
    const Characters old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Characters& other) const { return at_end() == other.at_end(); }

 private:
  bool at_end() const { return source_ == nullptr || source_->rest.empty(); }
  Source* source_ = nullptr;
};

}  // namespace

void Numbers::widen() {
  const size_t count = size();
  Numbers wider;
  wider.shift_ = shift_ + 1;
  wider.bytes_.reserve((count + 1) << wider.shift_);
  wider.bytes_.resize(count << wider.shift_);
  for (size_t i = 0; i < count; i++) {
    const uint64_t number = (*this)[i];
    std::memcpy(wider.bytes_.data() + (i << wider.shift_), &number, size_t{1} << wider.shift_);
  }
  *this = std::move(wider);
}

void Numbers::push_back(uint64_t number) {
  while (shift_ < 3 && (number >> (8u << shift_)) != 0) widen();
  const size_t at = bytes_.size();
  bytes_.resize(at + (size_t{1} << shift_));
  std::memcpy(bytes_.data() + at, &number, size_t{1} << shift_);  // little-endian, as x86-64 is
}

uint64_t Numbers::operator[](size_t i) const {
  uint64_t number = 0;
  std::memcpy(&number, bytes_.data() + (i << shift_), size_t{1} << shift_);
  return number;
}

const Json::Members* Json::members() const {
  const auto* all = std::get_if<std::unique_ptr<Members>>(&value_);
  return all == nullptr ? nullptr : all->get();
}

const Numbers* Json::numbers() const {
  if (const auto* all = std::get_if<std::unique_ptr<Numbers>>(&value_)) return all->get();
  const List* other = list();
  return other != nullptr && other->empty() ? &kNoNumbers : nullptr;
}

const Json::List* Json::list() const {
  if (const auto* all = std::get_if<std::unique_ptr<List>>(&value_)) return all->get();
  const auto* other = std::get_if<std::unique_ptr<Numbers>>(&value_);
  return other != nullptr && (*other)->empty() ? &kNoList : nullptr;
}

double Json::number() const {
  if (const uint64_t* n = count()) return static_cast<double>(*n);
  if (const auto* n = std::get_if<int64_t>(&value_)) return static_cast<double>(*n);
  return std::get<double>(value_);
}

int64_t Json::integer() const {
  if (const uint64_t* n = count()) return static_cast<int64_t>(*n);
  return std::get<int64_t>(value_);
}

// The parser's events become a tree. Its functions have the names that nlohmann's sax_parse wants;
// each is told of one value, key, or bracket, and says whether to go on.
class TreeBuilder {
 public:
  Json take() { return std::move(root_); }
  size_t stopped_at() const { return stopped_at_; }

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json(value)); }
  bool number_integer(int64_t value) { return put(Json(value)); }
  bool number_float(double value, const std::string&) { return put(Json(value)); }
  bool number_unsigned(uint64_t value) {
    if (open_.empty() || open_.back().numbers == nullptr) return put(Json(value));
    if (++numbers_ > kMaxNumbers)
      throw Bad{fmt::format("it has more than {} numbers", kMaxNumbers)};
    Numbers& numbers = *open_.back().numbers;
    numbers.push_back(value);
    check_rows(numbers.size());
    return true;
  }
  bool string(std::string& value) {
    charge(value.size());
    check_text(value);
    return put(Json(std::move(value)));
  }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) {
    auto members = std::make_unique<Json::Members>();
    Frame frame;
    frame.members = members.get();
    return open(Json(std::move(members)), frame);
  }
  bool start_array(size_t) {
    auto numbers = std::make_unique<Numbers>();
    Frame frame;
    frame.numbers = numbers.get();
    return open(Json(std::move(numbers)), frame);
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    charge(sizeof(Json::Members::value_type) + kNodeBytes + name.size());
    check_text(name);
    open_.back().member = &(*open_.back().members)[std::move(name)];
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    stopped_at_ = position;
    return false;
  }

 private:
  static constexpr size_t kNodeBytes = 48;  // of a map, and what malloc adds

  // A list or object that is not closed yet. A list is one of numbers until something else comes.
  struct Frame {
    Json* at = nullptr;
    Numbers* numbers = nullptr;
    Json::List* list = nullptr;
    Json::Members* members = nullptr;
    Json* member = nullptr;
  };

  void charge(size_t bytes) {
    tree_bytes_ += bytes;
    if (tree_bytes_ > kMaxTreeBytes)
      throw Bad{fmt::format("its text and rows need more than {} bytes", kMaxTreeBytes)};
  }
  static void check_text(const std::string& text) {
    if (text.size() > kMaxTextBytes)
      throw Bad{fmt::format("it has a string of more than {} bytes", kMaxTextBytes)};
  }
  static void check_rows(size_t rows) {
    if (rows > kMaxRows) throw Bad{fmt::format("it has a list of more than {} rows", kMaxRows)};
  }

  Json::List& as_list(Frame& frame) {
    if (frame.list != nullptr) return *frame.list;
    auto list = std::make_unique<Json::List>();
    charge(frame.numbers->size() * sizeof(Json));
    for (size_t i = 0; i < frame.numbers->size(); i++) list->emplace_back((*frame.numbers)[i]);
    frame.list = list.get();
    frame.numbers = nullptr;
    frame.at->value_ = std::move(list);
    return *frame.list;
  }

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Frame& frame = open_.back();
    if (frame.members != nullptr) return *frame.member = std::move(value);
    charge(sizeof(Json));
    Json::List& list = as_list(frame);
    list.push_back(std::move(value));
    check_rows(list.size());
    return list.back();
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value, Frame frame) {
    if (open_.size() == kMaxDepth)
      throw Bad{fmt::format("its lists and objects are nested deeper than {}", kMaxDepth)};
    charge(kNodeBytes);
    // A list grows only while none of its elements is open, so this stays where it is.
    frame.at = &place(std::move(value));
    open_.push_back(frame);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Frame> open_;
  size_t tree_bytes_ = 0;
  size_t numbers_ = 0;
  size_t stopped_at_ = 0;
};

Json parse(TextPieces& text) {
  Characters::Source source(text);
  TreeBuilder builder;
  if (nlohmann::json::sax_parse(Characters(source), Characters(), &builder)) return builder.take();
  if (source.given == 0 && source.rest.empty()) throw Bad{"it is empty"};
  if (builder.stopped_at() > source.given && source.rest.empty())
    throw Bad{fmt::format("it is cut off after {} bytes", source.given)};
  throw Bad{fmt::format("it is not JSON at byte {}, so it is no profile of shadowprof",
                        builder.stopped_at())};
}

}  // namespace shadowprof::profile::json
