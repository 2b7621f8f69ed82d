// SPDX-License-Identifier: MIT
//
// The first half of translation: which guest instructions become one fragment.
#include "emu/translate/translator.h"

namespace shadowprof::emu {
namespace {

using decoder::GprMask;
using decoder::Insn;
using decoder::InsnKind;
using trace::Terminator;

constexpr GprMask kSubstituteCandidates =
    decoder::gpr_bit(decoder::kR8) | decoder::gpr_bit(decoder::kR9) |
    decoder::gpr_bit(decoder::kR10) | decoder::gpr_bit(decoder::kR11) |
    decoder::gpr_bit(decoder::kR14);

GprMask registers_of(const Insn& insn) {
  return insn.reads | insn.writes;
}

}  // namespace

Insn Translator::read_insn(GuestAddr pc, const CodeRegion& region) {
  Insn insn = guest_blocks_.read_insn(pc, region);
  if (options_.stop_at_cpuid && (insn.asks_processor || insn.asks_enabled_state))
    insn.kind = InsnKind::native;
  if (options_.stop_at_rdtsc && insn.reads_clock) insn.kind = InsnKind::native;
  // When tracing, the GS base is ours.
  if (insn.uses_gs && tracing()) {
    insn.kind = InsnKind::unsupported;
    insn.unsupported_reason = "it uses the gs segment";
  }
  return insn;
}

const Insn& Translator::fetch_insn(GuestAddr pc, const CodeRegion& region) {
  if (!region.may_change) {
    if (const Insn* known = decoded_.find(pc)) return *known;
  }
  const Insn& insn = decoded_.add([&] { return read_insn(pc, region); });
  if (!region.may_change && insn.next() <= region.range.end) decoded_.keep(insn);
  return insn;
}

// The instruction at `pc` ends in the next region, whose bytes may change though its own may not.
bool Translator::continues_in_changing_code(GuestAddr pc, const CodeRegion& region) {
  if (region.range.end - pc >= decoder::kMaxInsnBytes) return false;
  return fetch_insn(pc, region).next() > region.range.end &&
         source_.region(region.range.end).may_change;
}

bool Translator::fits_substitute(const Insn& insn) const {
  const GprMask used = used_registers_ | registers_of(insn);
  if (!(used & decoder::gpr_bit(decoder::kR15))) return true;
  return (kSubstituteCandidates & ~used) != 0;
}

void Translator::choose_substitute() {
  substitute_ = decoder::kNoGpr;
  if (!(used_registers_ & decoder::gpr_bit(decoder::kR15))) return;
  const auto free = static_cast<GprMask>(kSubstituteCandidates & ~used_registers_);
  SP_CHECK(free != 0, "no register is free to stand in for r15");
  substitute_ = static_cast<decoder::Gpr>(std::countr_zero(free));
}

void Translator::add_block(uint32_t first_insn, const CodeRegion& region, Terminator terminator) {
  const BlockId id =
      guest_blocks_.block_of(std::span(insns_).subspan(first_insn), region.module, terminator);
  blocks_.push_back({id, first_insn, static_cast<uint32_t>(insns_.size())});
  block_ids_.push_back(id);
}

void Translator::expect_exit(const Insn& insn) const {
  if (insn.branch_target.value == 0) return;
  cache_.expect(insn.branch_target);
  harmless_.expect(insn.branch_target);
}

std::optional<GuestAddr> Translator::plan_block(GuestAddr pc, const CodeRegion& region) {
  const auto first = static_cast<uint32_t>(insns_.size());
  guest_blocks_.expect_block(pc);
  for (GuestAddr at = pc;; at = insns_.back()->next()) {
    const size_t count = insns_.size() - first;
    const auto split = [&] {
      if (count > 0) add_block(first, region, Terminator::none);
      return std::nullopt;
    };
    if (count == limits::kMaxBlockInsns || !region.range.contains(at)) return split();
    const Insn& insn = fetch_insn(at, region);
    const bool alone = insn.kind == InsnKind::native || insn.kind == InsnKind::unsupported;
    if (alone && !insns_.empty()) return split();
    // Across the end of a region: on its own, as the next one may have other rules.
    if (!insns_.empty() && insn.next() > region.range.end) return split();
    if (!alone && !fits_substitute(insn)) return split();

    used_registers_ |= registers_of(insn);
    insns_.push_back(&insn);
    if (insn.is_terminator()) {
      expect_exit(insn);
      add_block(first, region, terminator_of(insn.kind));
      if (insn.kind == InsnKind::conditional && insn.branch_target > at) return insn.next();
      const bool follows = insn.kind == InsnKind::jump || insn.kind == InsnKind::call;
      return follows && options_.through_jumps ? std::optional(insn.branch_target) : std::nullopt;
    }
    if (region.may_change && insn.writes_memory) {
      add_block(first, region, Terminator::none);
      return std::nullopt;
    }
  }
}

// Not back into the fragment itself: a loop's iterations are runs of their own.
bool Translator::can_follow(GuestAddr target, CodeRegion& region) {
  const int64_t distance = target - insns_[0]->address;
  if (distance > INT32_MAX / 2 || distance < INT32_MIN / 2) return false;
  if (insns_.size() >= limits::kMaxBlockInsns) return false;
  for (const GuestRange& r : ranges_) {
    if (r.contains(target)) return false;
  }
  if (!region.range.contains(target)) region = source_.region(target);
  return region.range.size() != 0 && !region.may_change &&
         !continues_in_changing_code(target, region);
}

bool Translator::plan_fragment(GuestAddr pc, const CodeRegion& start) {
  insns_.clear();
  blocks_.clear();
  block_ids_.clear();
  ranges_.clear();
  used_registers_ = 0;
  const uint32_t most = start.may_change ? 1 : limits::kMaxFragmentBlocks;
  CodeRegion region = start;
  std::optional<GuestAddr> next = pc;
  while (next && blocks_.size() < most) {
    if (!blocks_.empty() && !can_follow(*next, region)) break;
    const size_t known = blocks_.size();
    next = plan_block(*next, region);
    if (blocks_.size() == known) break;
    const trace::Block& block = table_.block(block_ids_.back());
    ranges_.push_back({block.start, block.end});
  }
  choose_substitute();
  return !blocks_.empty();
}

}  // namespace shadowprof::emu
