// SPDX-License-Identifier: MIT
#include "profile/hotlists/called_code.h"

#include <fmt/format.h>

#include <algorithm>

namespace shadowprof::profile {
namespace {

uint64_t offset_of(const Function& f) {
  return f.at.offset;
}

bool is_covered(const FunctionTable& known, uint64_t offset) {
  const auto next = std::ranges::upper_bound(known, offset, {}, offset_of);
  return next != known.begin() && offset - offset_of(*(next - 1)) < (next - 1)->size;
}

}  // namespace

FunctionTable functions_by_calls(std::span<const BlockCount> blocks, std::vector<uint64_t> callees,
                                 const FunctionTable& known) {
  std::erase_if(callees, [&](uint64_t callee) { return is_covered(known, callee); });
  std::ranges::sort(callees);
  callees.erase(std::unique(callees.begin(), callees.end()), callees.end());
  FunctionTable functions;
  for (size_t i = 0; i < callees.size(); i++) {
    const uint64_t start = callees[i];
    uint64_t end = i + 1 < callees.size() ? callees[i + 1] : UINT64_MAX;
    const auto next = std::ranges::upper_bound(known, start, {}, offset_of);
    if (next != known.end()) end = std::min(end, offset_of(*next));
    const auto behind = std::ranges::lower_bound(
        blocks, end, {}, [](const BlockCount& block) { return block.at.offset; });
    if (behind == blocks.begin() || (behind - 1)->at.offset < start) continue;
    const BlockCount& last = *(behind - 1);
    Function f;
    f.at = {last.at.module, start};
    f.size = std::min(end, last.at.offset + last.size) - start;
    f.name = fmt::format("function@0x{:x}", start);
    functions.push_back(std::move(f));
  }
  return functions;
}

}  // namespace shadowprof::profile
