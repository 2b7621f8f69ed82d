// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>

#include "symbols/rust_demangle.h"

namespace shadowprof::symbols {
namespace {

// Legacy components spell what an identifier cannot hold between dollar signs.
struct Escape {
  std::string_view spelled;
  char meaning;
};
constexpr std::array kEscapes = {Escape{"$SP$", '@'}, Escape{"$BP$", '*'}, Escape{"$RF$", '&'},
                                 Escape{"$LT$", '<'}, Escape{"$GT$", '>'}, Escape{"$LP$", '('},
                                 Escape{"$RP$", ')'}, Escape{"$C$", ','}};

void append_legacy_component(std::string& out, std::string_view part) {
  if (part.starts_with("_$")) part.remove_prefix(1);
  while (!part.empty()) {
    size_t taken = 1;
    if (part.starts_with("..")) {
      out += "::";
      taken = 2;
    } else if (part.starts_with("$u")) {
      size_t end = 2;
      uint32_t point = 0;
      for (; end < part.size() && end < 8 && is_hex(part[end]); ++end) {
        point = point * 16 +
                static_cast<uint32_t>(is_digit(part[end]) ? part[end] - '0' : part[end] - 'a' + 10);
      }
      if (end < part.size() && part[end] == '$' && point <= 0x10FFFF) {
        append_utf8(out, point);
        taken = end + 1;
      } else {
        out += part[0];
      }
    } else {
      char shown = part[0];
      for (const Escape& escape : kEscapes) {
        if (!part.starts_with(escape.spelled)) continue;
        shown = escape.meaning;
        taken = escape.spelled.size();
      }
      out += shown;
    }
    part.remove_prefix(taken);
  }
}

bool is_legacy_hash(std::string_view part) {
  if (part.size() != 17 || part[0] != 'h') return false;
  for (char c : part.substr(1)) {
    if (!is_hex(c)) return false;
  }
  return true;
}

}  // namespace

void append_utf8(std::string& out, uint32_t code_point) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | ((code_point >> 18) & 0x07));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::optional<std::string> demangle_rust_legacy(std::string_view name) {
  if (!name.starts_with("_ZN")) return std::nullopt;
  name.remove_prefix(3);
  std::string out;
  std::string_view last;
  while (!name.empty() && is_digit(name[0])) {
    size_t length = 0;
    while (!name.empty() && is_digit(name[0]) && length <= name.size()) {
      length = length * 10 + static_cast<size_t>(name[0] - '0');
      name.remove_prefix(1);
    }
    if (length == 0 || length > name.size()) return std::nullopt;
    if (!last.empty()) {
      if (!out.empty()) out += "::";
      append_legacy_component(out, last);
    }
    last = name.substr(0, length);
    name.remove_prefix(length);
  }
  bool ends = name.starts_with('E') && (name.size() == 1 || name[1] == '.');
  if (!ends || !is_legacy_hash(last) || out.empty()) return std::nullopt;
  return out;
}

}  // namespace shadowprof::symbols
