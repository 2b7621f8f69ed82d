// SPDX-License-Identifier: MIT
//
// Numbers as people type them: 20M instructions, 250ms, 1%.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace shadowprof::cli {

// Decimal suffixes K, M, G, T.
Result<uint64_t> parse_count(const std::string& text);
// Binary suffixes K, M, G, T: 1K is 1024 bytes.
Result<uint64_t> parse_bytes(const std::string& text);
// Seconds; suffixes us, ms, s, min, h; none means seconds.
Result<double> parse_time(const std::string& text);
// A share of one: "1%" and "1" are 0.01.
Result<double> parse_percent(const std::string& text);

}  // namespace shadowprof::cli
