// SPDX-License-Identifier: MIT
//
// BOLT's pre-aggregated profile (perf2bolt -pa): "B from to count mispredicted" for branches,
// "F first last count" for stretches without a taken branch. BOLT counts a fall-through for each
// pair of neighbouring blocks that a stretch spans; ours span exactly two, so each is counted once.
// Addresses are link-time addresses; of a position-independent file, from its first segment on.
#include "report/branch_ranges.h"
#include "report/export.h"

namespace shadowprof::report {

Result<std::string> export_bolt(const ExportInput& input) {
  SP_ASSIGN(const BranchRanges code, branch_ranges(input));
  const uint64_t base = code.position_independent ? code.base : 0;
  std::string text;
  for (const auto& b : code.branches)
    text += fmt::format("B {:x} {:x} {} 0\n", b.from - base, b.to - base, b.count);
  for (size_t i = 0; i < code.ranges.size(); i++) {
    const auto& range = code.ranges[i];
    if (range.falls == 0) continue;
    // Blocks that overlap because code is entered in the middle of an instruction have no
    // neighbour.
    const bool follows = i + 1 < code.ranges.size() && code.ranges[i + 1].first == range.next;
    if (follows)
      text += fmt::format("F {:x} {:x} {}\n", range.first - base, code.ranges[i + 1].last - base,
                          range.falls);
  }
  return text;
}

}  // namespace shadowprof::report
