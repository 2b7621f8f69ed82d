// SPDX-License-Identifier: MIT
#include "cli/quantity.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace shadowprof::cli {
namespace {

struct Parsed {
  double number = 0;
  std::string_view suffix;
};

Result<Parsed> split(const std::string& text, const char* what) {
  Parsed parsed;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), parsed.number);
  if (wrong != std::errc() || !std::isfinite(parsed.number) || parsed.number < 0) {
    return fail("'{}' is not {}", text, what);
  }
  parsed.suffix = std::string_view(end, static_cast<size_t>(text.data() + text.size() - end));
  return parsed;
}

}  // namespace

Result<uint64_t> parse_count(const std::string& text) {
  constexpr const char* kWhat = "a count (such as 500000, 20M or 1G)";
  SP_ASSIGN(const Parsed parsed, split(text, kWhat));
  double factor = 1;
  if (parsed.suffix == "K")
    factor = 1e3;
  else if (parsed.suffix == "M")
    factor = 1e6;
  else if (parsed.suffix == "G")
    factor = 1e9;
  else if (parsed.suffix == "T")
    factor = 1e12;
  else if (!parsed.suffix.empty())
    return fail("'{}' is not {}", text, kWhat);
  const double value = parsed.number * factor;
  if (value >= 9e18) return fail("'{}' is too large", text);
  return static_cast<uint64_t>(std::llround(value));
}

Result<uint64_t> parse_bytes(const std::string& text) {
  constexpr const char* kWhat = "a size of memory (such as 512M or 2G)";
  constexpr std::string_view kSuffixes = "KMGT";
  SP_ASSIGN(const Parsed parsed, split(text, kWhat));
  double value = parsed.number;
  if (!parsed.suffix.empty()) {
    const size_t power = kSuffixes.find(parsed.suffix);
    if (power == std::string_view::npos || parsed.suffix.size() != 1) {
      return fail("'{}' is not {}", text, kWhat);
    }
    value = std::ldexp(value, static_cast<int>(10 * (power + 1)));
  }
  if (value < 1 || value >= 9e18) return fail("'{}' is not {}", text, kWhat);
  return static_cast<uint64_t>(std::llround(value));
}

Result<double> parse_time(const std::string& text) {
  constexpr const char* kWhat = "a time (such as 10, 1.5s, 250ms, 500us or 10min)";
  SP_ASSIGN(const Parsed parsed, split(text, kWhat));
  if (parsed.suffix == "us") return parsed.number * 1e-6;
  if (parsed.suffix == "ms") return parsed.number * 1e-3;
  if (parsed.suffix == "min") return parsed.number * 60;
  if (parsed.suffix == "h") return parsed.number * 3600;
  if (parsed.suffix == "s" || parsed.suffix.empty()) return parsed.number;
  return fail("'{}' is not {}", text, kWhat);
}

Result<double> parse_percent(const std::string& text) {
  constexpr const char* kWhat = "a share (such as 1% or 0.5%)";
  SP_ASSIGN(const Parsed parsed, split(text, kWhat));
  if (!parsed.suffix.empty() && parsed.suffix != "%") return fail("'{}' is not {}", text, kWhat);
  return parsed.number / 100;
}

}  // namespace shadowprof::cli
