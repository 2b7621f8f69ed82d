// SPDX-License-Identifier: MIT
#include "report/branch_ranges.h"

#include <algorithm>
#include <map>

#include "base/types.h"
#include "report/code_costs.h"

namespace shadowprof::report {

using profile::BlockCount;
using profile::CodeRef;
using profile::Edge;
using profile::EdgeKind;

namespace {

// The branch that ends a block, and how often it was not taken. None: the block ends because
// another one begins.
struct Ending {
  bool is_branch = false;
  uint64_t not_taken = 0;
};

Ending ending_of(const profile::EdgeTable& edges, CodeRef last) {
  Ending ending;
  auto edge = std::lower_bound(edges.begin(), edges.end(), last,
                               [](const Edge& e, CodeRef at) { return e.from < at; });
  for (; edge != edges.end() && edge->from == last; ++edge) {
    ending.is_branch = true;
    if (edge->kind == EdgeKind::not_taken) ending.not_taken += edge->count;
  }
  return ending;
}

}  // namespace

Result<BranchRanges> branch_ranges(const ExportInput& input) {
  SP_ASSIGN(const symbols::ModuleSymbols* file, input.modules.open(input.module));
  const symbols::AddressMap& addresses = file->addresses();
  BranchRanges result;
  result.position_independent = file->position_independent();
  if (!addresses.segments().empty()) result.base = addresses.segments()[0].vaddr;
  for (auto s = addresses.segments().rbegin(); s != addresses.segments().rend(); ++s)
    if (s->executable) result.text_base = GuestAddr(s->vaddr).page().value;
  const CodeCosts costs(input.profile, input.modules);
  const profile::Tables& t = input.profile.tables;
  for (size_t i = 0; i < t.blocks.size(); i++) {
    if (t.blocks[i].at.module != input.module) continue;
    const auto insns = costs.instructions(i);
    if (insns.empty() || insns.back().count == 0) continue;
    const InsnCost& last = insns.back();
    const auto first_at = addresses.to_vaddr(insns.front().at.offset);
    const auto last_at = addresses.to_vaddr(last.at.offset);
    if (!first_at || !last_at) continue;
    const Ending ending = ending_of(t.edges, last.at);
    const uint64_t falls = ending.is_branch ? ending.not_taken : last.count;
    result.ranges.push_back({*first_at, *last_at, *last_at + last.length, last.count, falls});
  }
  std::sort(result.ranges.begin(), result.ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> branches;
  for (const Edge& e : t.edges) {
    if (e.kind == EdgeKind::not_taken || e.from.module != input.module ||
        e.to.module != input.module)
      continue;
    const auto from = addresses.to_vaddr(e.from.offset);
    const auto to = addresses.to_vaddr(e.to.offset);
    if (from && to) branches[{*from, *to}] += e.count;
  }
  for (const auto& [ends, count] : branches)
    result.branches.push_back({ends.first, ends.second, count});
  if (result.ranges.empty())
    return fail("no code of {} is in the profile", input.profile.modules[input.module].path);
  return result;
}

}  // namespace shadowprof::report
