// SPDX-License-Identifier: MIT
//
// AutoFDO's text input: three sections, each a number of lines and these lines: stretches of code
// ("first-last:count", the last instruction included), single addresses (none: stretches say it
// all), and branches ("from->to:count"), in link-time addresses, of a position-independent file
// from its first segment on. llvm-profgen's unsymbolized profile is the same without the middle
// section; its addresses count from the first executable segment.
#include "report/branch_ranges.h"
#include "report/export.h"

namespace shadowprof::report {
namespace {

std::string stretches_and_branches(const BranchRanges& code, uint64_t base,
                                   std::string_view middle) {
  std::string text = fmt::format("{}\n", code.ranges.size());
  for (const auto& r : code.ranges)
    text += fmt::format("{:x}-{:x}:{}\n", r.first - base, r.last - base, r.count);
  text += middle;
  text += fmt::format("{}\n", code.branches.size());
  for (const auto& b : code.branches)
    text += fmt::format("{:x}->{:x}:{}\n", b.from - base, b.to - base, b.count);
  return text;
}

}  // namespace

Result<std::string> export_autofdo(const ExportInput& input) {
  SP_ASSIGN(const BranchRanges code, branch_ranges(input));
  return stretches_and_branches(code, code.position_independent ? code.base : 0, "0\n");
}

Result<std::string> export_llvm_unsymbolized(const ExportInput& input) {
  SP_ASSIGN(const BranchRanges code, branch_ranges(input));
  return stretches_and_branches(code, code.text_base, "");
}

}  // namespace shadowprof::report
