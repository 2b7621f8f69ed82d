// SPDX-License-Identifier: MIT
//
// Which code a region of the program begins or ends with (collect/regions/region_filter.h): it is
// looked for before a chunk with new blocks goes to the collectors.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/regions/region_filter.h"
#include "sample/named_functions.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

// What is asked for: --within "marks", or a function as rules of check name it, perhaps behind the
// name of its module: FUNCTION, MODULE!FUNCTION. Both may have wildcards. Or --from one --to
// another.
struct RegionRequest {
  std::string within;
  std::string from;
  std::string to;
  collect::RegionKind kind() const {
    if (within.empty()) return collect::RegionKind::between;
    return within == "marks" ? collect::RegionKind::marks : collect::RegionKind::function;
  }
};

class RegionCode {
 public:
  // `started`: as load_symbols has it.
  RegionCode(const trace::BlockTable& table, const RegionRequest& request, int64_t started);

  // Looks at what was added to the table since.
  void look();

  // By block id: what the entry of a function does to the region.
  const ReservedArray<uint8_t>& entries() const { return entries_; }
  // Functions with such a block, sorted.
  std::vector<std::string> functions() const { return {functions_.begin(), functions_.end()}; }

 private:
  const trace::BlockTable& table_;
  NamedFunctions named_;
  size_t looked_at_ = 0;  // blocks
  ReservedArray<uint8_t> entries_{limits::kMaxBlocks};
  std::set<std::string> functions_;
};

}  // namespace shadowprof::sample
