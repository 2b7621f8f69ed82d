// SPDX-License-Identifier: MIT
#include "profile/value_table.h"

#include <algorithm>

namespace shadowprof::profile {

const char* argument_register(uint8_t argument) {
  constexpr const char* kNames[kArguments] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
  return argument < kArguments ? kNames[argument] : "?";
}

void add_figures(ValueFigures& a, const ValueFigures& b) {
  a.count += b.count;
  a.zero += b.zero;
  a.same += b.same;
  a.strided += b.strided;
  uint64_t common = 0;
  for (const ValueCount& v : b.top) {
    const auto known = std::find_if(a.top.begin(), a.top.end(),
                                    [&](const ValueCount& w) { return w.value == v.value; });
    if (known == a.top.end()) {
      a.top.push_back(v);
    } else {
      known->count += v.count;
      common++;
    }
  }
  a.distinct += b.distinct - std::min(common, b.distinct);
  std::sort(a.top.begin(), a.top.end(), [](const ValueCount& x, const ValueCount& y) {
    return x.count != y.count ? x.count > y.count : x.value < y.value;
  });
}

}  // namespace shadowprof::profile
