// SPDX-License-Identifier: MIT
//
// Rust's two manglings. "Legacy" looks like C++ (_ZN4core3fmt5write17h0123456789abcdefE) with a
// hash as last component and punctuation spelled $LT$ and so on; "v0" is a grammar of its own
// (_RNvC5mycrate4main; The Rust Reference and RFC 2603).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shadowprof::symbols {

// Paths without hashes and crate disambiguators. Nothing when the name is not of this mangling.
std::optional<std::string> demangle_rust_v0(std::string_view name);
std::optional<std::string> demangle_rust_legacy(std::string_view name);

void append_utf8(std::string& out, uint32_t code_point);

// The characters of both: hexadecimal ones are small.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

}  // namespace shadowprof::symbols
