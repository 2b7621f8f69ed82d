// SPDX-License-Identifier: MIT
#include "report/probe_text.h"

#include <fmt/format.h>

#include "report/columns.h"

namespace shadowprof::report {
namespace {

// Addresses are easier to read in hexadecimal, and counts are not.
std::string number_text(uint64_t number) {
  constexpr uint64_t kLeastAddress = uint64_t{1} << 32;
  return number < kLeastAddress ? fmt::format("{}", number) : fmt::format("{:#x}", number);
}

}  // namespace

std::string probe_number(const profile::HotProbe::Number& number) {
  if (number.is_hidden) return profile::value_text(profile::ValueType::hidden, number.number);
  const std::string first = number_text(number.number);
  if (!number.is_range || number.number < 2) return first;
  return first + " to " + number_text(number.number + (number.number - 1));
}

std::string probe_sums(const profile::ProbeInfo& probe, bool exact) {
  std::string text = fmt::format("{} of {} executions counted", short_count(probe.counted),
                                 short_count(probe.matched));
  if (!exact) text += " in samples: shares are estimates";
  if (probe.unknown != 0)
    text += fmt::format("; {} with values that are not known", short_count(probe.unknown));
  if (probe.others != 0)
    text += fmt::format("; {} others, for which there is no row", short_count(probe.others));
  return text;
}

}  // namespace shadowprof::report
