// SPDX-License-Identifier: MIT
#include "sample/region_code.h"

namespace shadowprof::sample {
namespace {

// What a pattern's entry does is its bit.
std::vector<FunctionPattern> patterns_of(const RegionRequest& request) {
  static_assert(collect::kOpensRegion == 1 << 0 && collect::kClosesRegion == 1 << 1);
  if (request.kind() == collect::RegionKind::between)
    return {FunctionPattern::from(request.from), FunctionPattern::from(request.to)};
  return {FunctionPattern::from(request.within)};
}

}  // namespace

RegionCode::RegionCode(const trace::BlockTable& table, const RegionRequest& request,
                       int64_t started)
    : table_(table), named_(table, patterns_of(request), started) {}

void RegionCode::look() {
  for (; looked_at_ < table_.block_count(); looked_at_++) {
    const auto id = static_cast<uint32_t>(looked_at_);
    const trace::Block& block = table_.block(BlockId(id));
    const NamedFunctions::Found found = named_.find(block);
    if (!found.is_entry) continue;
    entries_[id] = static_cast<uint8_t>(found.patterns);
    functions_.insert(named_.name_of(block));
  }
}

}  // namespace shadowprof::sample
