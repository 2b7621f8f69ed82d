// SPDX-License-Identifier: MIT
//
// Numbers and texts as few bytes: LEB128, seven bits of a number in each byte, the lowest first;
// a text is its size and its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shadowprof {

class NumberWriter {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void text(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Whatever is not there, or makes no sense, is 0, and from then on it is not good().
class NumberReader {
 public:
  explicit NumberReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    good_ = false;
    return 0;
  }
  // One below `end`, which is at most 2^32.
  uint32_t below(uint64_t end) { return if_below(end, number()); }
  uint32_t small() { return below(uint64_t{1} << 32); }
  // How many things follow, each of which takes a byte at least.
  uint32_t count() {
    const uint64_t value = number();  // before it is asked what is left
    return if_below(rest_.size() + 1, value);
  }
  std::string_view text() {
    const uint32_t size = count();
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && rest_.empty(); }

 private:
  uint32_t if_below(uint64_t end, uint64_t value) {
    if (value < end) return static_cast<uint32_t>(value);
    good_ = false;
    return 0;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace shadowprof
