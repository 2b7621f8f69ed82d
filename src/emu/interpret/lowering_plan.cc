// SPDX-License-Identifier: MIT
//
// Which instructions become one fragment. The rules are those of the translator
// (translator_plan.cc).
#include <algorithm>

#include "emu/interpret/lowering.h"

namespace shadowprof::emu {

using decoder::Insn;
using decoder::InsnKind;
using trace::Terminator;

void Lowering::add_block(uint32_t first_insn, const CodeRegion& region, Terminator terminator) {
  block_insns_.clear();
  for (size_t i = first_insn; i < insns_.size(); i++) block_insns_.push_back(&insns_[i]);
  const BlockId id = guest_blocks_.block_of(block_insns_, region.module, terminator);
  blocks_.push_back({id, first_insn, static_cast<uint32_t>(insns_.size())});
  block_ids_.push_back(id);
  const trace::Block& block = table_.block(id);
  out_.ranges.push_back({block.start, block.end});
}

// Adds the block at `pc`; the address at which the fragment goes on, if it may.
std::optional<GuestAddr> Lowering::plan_block(GuestAddr pc, const CodeRegion& region) {
  const auto first = static_cast<uint32_t>(insns_.size());
  for (GuestAddr at = pc;; at = insns_.back().next()) {
    const auto split = [&] {
      if (insns_.size() > first) add_block(first, region, Terminator::none);
      return std::nullopt;
    };
    if (insns_.size() - first == limits::kMaxBlockInsns || !region.range.contains(at))
      return split();
    const Insn insn = guest_blocks_.read_insn(at, region);
    const bool alone = insn.kind == InsnKind::native || insn.kind == InsnKind::unsupported;
    if (alone && !insns_.empty()) return split();
    if (!insns_.empty() && insn.next() > region.range.end) return split();

    insns_.push_back(insn);
    if (insn.is_terminator()) {
      add_block(first, region, terminator_of(insn.kind));
      const bool goes_on = insn.kind == InsnKind::conditional && insn.branch_target > at;
      return goes_on ? std::optional(insn.next()) : std::nullopt;
    }
    if (region.may_change && insn.writes_memory) return split();
  }
}

// Not back into the fragment itself: a loop's iterations are runs of their own.
bool Lowering::can_follow(GuestAddr target, const CodeRegion& region) const {
  if (insns_.size() >= limits::kMaxBlockInsns) return false;
  const bool again = std::any_of(out_.ranges.begin(), out_.ranges.end(),
                                 [&](const GuestRange& r) { return r.contains(target); });
  return !again && region.range.contains(target) && !region.may_change;
}

bool Lowering::plan_fragment(GuestAddr pc, const CodeRegion& region) {
  insns_.clear();
  blocks_.clear();
  block_ids_.clear();
  std::optional<GuestAddr> next = pc;
  while (next && blocks_.size() < (region.may_change ? 1 : limits::kMaxFragmentBlocks)) {
    if (!blocks_.empty() && !can_follow(*next, region)) break;
    const size_t known = blocks_.size();
    next = plan_block(*next, region);
    if (blocks_.size() == known) break;
  }
  return !blocks_.empty();
}

}  // namespace shadowprof::emu
