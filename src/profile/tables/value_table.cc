// SPDX-License-Identifier: MIT
#include "profile/tables/value_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "profile/confidence.h"

namespace shadowprof::profile {

namespace {

constexpr const char* kValueTypeNames[kValueTypes] = {"int", "f32", "f64", "hidden"};

}  // namespace

const char* to_string(ValuePart part) {
  return kValuePartNames[static_cast<size_t>(part)];
}

std::optional<ValuePart> value_part_from(std::string_view name) {
  for (size_t i = 0; i < kValueParts; i++)
    if (name == kValuePartNames[i]) return static_cast<ValuePart>(i);
  return std::nullopt;
}

const char* to_string(ValueType type) {
  return kValueTypeNames[static_cast<size_t>(type)];
}

std::optional<ValueType> value_type_from(std::string_view name) {
  for (size_t i = 0; i < kValueTypes; i++)
    if (name == kValueTypeNames[i]) return static_cast<ValueType>(i);
  return std::nullopt;
}

std::optional<double> number_from(ValueType type, uint64_t bits) {
  if (type == ValueType::f64) return std::bit_cast<double>(bits);
  if (type == ValueType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::nullopt;
}

std::string value_text(ValueType type, uint64_t bits) {
  constexpr uint64_t kShownOfHidden = 0xff'ffff;
  std::string text;
  switch (type) {
    case ValueType::hidden:
      return fmt::format("#{:06x}", bits & kShownOfHidden);
    case ValueType::integer:
      return bits < 1'000'000 ? fmt::format("{}", bits) : fmt::format("{:#x}", bits);
    case ValueType::f32:
      text = fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(bits)));
      break;
    case ValueType::f64:
      text = fmt::format("{}", std::bit_cast<double>(bits));
      break;
  }
  const bool whole = text.find_first_not_of("-0123456789") == text.npos;
  return whole ? text + ".0" : text;
}

const char* argument_register(uint8_t argument) {
  constexpr const char* kNames[kArguments] = {"rdi", "rsi",  "rdx",  "rcx",  "r8",
                                              "r9",  "xmm0", "xmm1", "xmm2", "xmm3"};
  return argument < kArguments ? kNames[argument] : "?";
}

void add_figures(ValueFigures& a, const ValueFigures& b) {
  // What is neither estimated nor sampled is exact beside what is estimated.
  const auto is_known = [](const ValueFigures& f, const ValueFigures& other) {
    return f.samples != 0 || (!f.estimated && other.estimated);
  };
  const bool known = is_known(a, b) && is_known(b, a);
  a.top_error = known ? added_error(a.top_error, b.top_error) : 0;
  a.samples = known ? a.samples + b.samples : 0;
  a.estimated = a.estimated || b.estimated;
  a.distinct_error = added_error(a.distinct_error, b.distinct_error);
  a.count += b.count;
  a.zero += b.zero;
  a.same += b.same;
  a.strided += b.strided;
  uint64_t common = 0;
  for (const ValueCount& v : b.top) {
    const auto same = std::find_if(a.top.begin(), a.top.end(),
                                   [&](const ValueCount& w) { return w.value == v.value; });
    if (same == a.top.end()) {
      a.top.push_back(v);
    } else {
      same->count += v.count;
      common++;
    }
  }
  a.distinct += b.distinct - std::min(common, b.distinct);
  std::sort(a.top.begin(), a.top.end(), [](const ValueCount& x, const ValueCount& y) {
    return x.count != y.count ? x.count > y.count : x.value < y.value;
  });
}

}  // namespace shadowprof::profile
