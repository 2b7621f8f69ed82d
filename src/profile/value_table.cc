// SPDX-License-Identifier: MIT
#include "profile/value_table.h"

#include <algorithm>

#include "profile/confidence.h"

namespace shadowprof::profile {

namespace {

constexpr const char* kPartNames[kValueParts] = {"result", "second", "comparison"};

}  // namespace

const char* to_string(ValuePart part) {
  return kPartNames[static_cast<size_t>(part)];
}

std::optional<ValuePart> value_part_from(std::string_view name) {
  for (size_t i = 0; i < kValueParts; i++)
    if (name == kPartNames[i]) return static_cast<ValuePart>(i);
  return std::nullopt;
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
