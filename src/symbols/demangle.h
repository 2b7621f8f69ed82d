// SPDX-License-Identifier: MIT
//
// From the linker's names to the programmer's: C++ (Itanium), Rust (v0 and legacy). Anything else,
// and anything that does not parse, stays as it is. Names come out of untrusted files; what leaves
// here is valid UTF-8 without control characters and of bounded length.
#pragma once

#include <string>
#include <string_view>

namespace shadowprof::symbols {

std::string demangle(std::string_view linkage_name);

// Bytes that are no UTF-8, and control characters, become '?'.
std::string printable(std::string_view text);

}  // namespace shadowprof::symbols
