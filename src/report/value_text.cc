// SPDX-License-Identifier: MIT
#include "report/value_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace shadowprof::report {
namespace {

bool is_difference(const profile::HotValue& v) {
  return v.part == profile::ValuePart::comparison && v.disassembly.starts_with("cmp");
}

}  // namespace

std::string hot_value_text(const profile::HotValue& of, uint64_t value) {
  const auto unused = 64 - std::clamp<unsigned>(of.bits, 1, 64);
  const auto signed_value = static_cast<int64_t>(value << unused) >> unused;
  const bool is_known = of.type != profile::ValueType::hidden;
  const bool negative = is_known && is_difference(of) && signed_value < 0;
  return negative ? "-" + profile::value_text(profile::ValueType::integer,
                                              -static_cast<uint64_t>(signed_value))
                  : profile::value_text(of.type, value);
}

std::string part_text(const profile::HotValue& v) {
  const bool number = profile::is_float(v.type);
  if (v.elements != 0)
    return fmt::format(" ({}{}: 1st of {})", number ? "" : "i",
                       number ? profile::to_string(v.type) : std::to_string(v.bits), v.elements);
  if (number) return fmt::format(" ({})", profile::to_string(v.type));
  if (v.part == profile::ValuePart::result) return "";
  if (v.part == profile::ValuePart::second) return " (2nd result)";
  if (v.part == profile::ValuePart::divisor) return " (divisor)";
  return is_difference(v) ? " (difference)" : " (common bits)";
}

}  // namespace shadowprof::report
