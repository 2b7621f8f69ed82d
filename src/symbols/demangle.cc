// SPDX-License-Identifier: MIT
#include "symbols/demangle.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "symbols/rust_demangle.h"

namespace shadowprof::symbols {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0 when there is none
// (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                  : first >= 0xE0 && first <= 0xEF ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 0;
  if (length == 0 || text.size() < length) return 0;
  uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

size_t plain_length(std::string_view text) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  return static_cast<size_t>(end - text.begin());
}

// Substitutions let a name of n characters stand for 2^n characters of text, and __cxa_demangle
// writes them all. So before it runs: an upper bound of what it could write. A reference S_k_
// expands to at most what precedes its first use, with the references to lower numbers that are in
// there; T_k_ to at most everything so far; a pack expansion repeats. The bound of 124,000 C++
// names out of Debian's libraries is below 2^24 without exception.
//
// A limit on what is written would let more names through (those of std::variant's visitors have
// three or four packs, side by side), but it would not bound the time: before each repetition the
// library looks for a pack in the whole of the pattern, without remembering where it has been, and
// where the pack is empty writes nothing. Which packs are within which only a parser could tell.
constexpr double kMaxDemangleBound = 1 << 24;
constexpr size_t kMaxShownBytes = 65536;

class ExpansionBound {
 public:
  explicit ExpansionBound(std::string_view name) : name_(name) {
    for (size_t i = 0; i + 1 < name.size(); ++i) {
      bool pack = (name[i] == 'D' || name[i] == 's') && name[i + 1] == 'p';
      if (pack) ++packs_;
      if (name[i] == 'S' || name[i] == 'T') i = reference(i);
    }
    total_ += static_cast<double>(name.size() - counted_);
    for (int i = 1; i < packs_; ++i) total_ *= static_cast<double>(name.size()) / 8 + 1;
  }

  double value() const { return total_; }

 private:
  // At an S or T: accounts for the reference, if it is one, and returns its last character.
  size_t reference(size_t at) {
    uint64_t number = 0;
    size_t i = at + 1;
    for (; i < name_.size() && i - at < 8; ++i) {
      char c = name_[i];
      if (c >= '0' && c <= '9') {
        number = number * 36 + static_cast<uint64_t>(c - '0');
      } else if (c >= 'A' && c <= 'Z') {
        number = number * 36 + static_cast<uint64_t>(c - 'A') + 10;
      } else {
        break;
      }
    }
    if (i >= name_.size() || name_[i] != '_') return at;
    if (i > at + 1) ++number;
    total_ += static_cast<double>(at - counted_);
    counted_ = at;
    if (name_[at] == 'T') {
      template_text_ += total_;
      total_ *= 2;
      return i;
    }
    auto [cost, is_new] = costs_.try_emplace(number, static_cast<double>(at) + template_text_);
    if (is_new) {
      for (auto [other, other_cost] : references_) {
        if (other < number) cost->second += other_cost;
      }
    }
    references_.emplace_back(number, cost->second);
    total_ += cost->second;
    return i;
  }

  std::string_view name_;
  size_t counted_ = 0;  // characters of the name that are in total_ already
  int packs_ = 0;
  double total_ = 0;
  double template_text_ = 0;
  std::map<uint64_t, double> costs_;
  std::vector<std::pair<uint64_t, double>> references_;
};

std::string demangle_cxx(const std::string& name) {
  if (ExpansionBound(name).value() > kMaxDemangleBound) return {};
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return {};
  std::string_view shown(text.get());
  return std::string(shown.substr(0, kMaxShownBytes));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    // Nearly all of nearly every name.
    const size_t plain = plain_length(text);
    result.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    size_t length = utf8_length(text);
    bool control = static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7F ||
                   (length == 2 && text[0] == '\xC2' && static_cast<uint8_t>(text[1]) < 0xA0);
    if (length == 0 || control) {
      result += '?';
    } else {
      result.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string demangle(std::string_view linkage_name) {
  if (linkage_name.starts_with("_R")) {
    if (auto text = demangle_rust_v0(linkage_name)) return printable(*text);
  } else if (linkage_name.starts_with("_ZN")) {
    if (auto text = demangle_rust_legacy(linkage_name)) return printable(*text);
  }
  if (linkage_name.starts_with("_Z")) {
    std::string text = demangle_cxx(std::string(linkage_name));
    if (!text.empty()) return printable(text);
  }
  return printable(linkage_name);
}

}  // namespace shadowprof::symbols
