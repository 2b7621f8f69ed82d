// SPDX-License-Identifier: MIT
#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace shadowprof {
namespace {

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;  // 0: not UTF-8
};

Character decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return {};
  uint32_t code = byte(0) & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {bytes, code};
}

bool is_harmless(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
                         code == 0x200e || code == 0x200f || code == 0x61c;
  const bool line = code == 0x2028 || code == 0x2029;
  const bool no_character = (code & 0xfffe) == 0xfffe;
  return !control && !direction && !line && !no_character;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character c = decode(text);
    if (c.code != 0 && is_harmless(c.code)) {
      result += text.substr(0, c.bytes);
    } else {
      for (size_t i = 0; i < c.bytes; i++)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    }
    text.remove_prefix(c.bytes);
  }
  return result;
}

}  // namespace shadowprof
