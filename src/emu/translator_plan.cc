// SPDX-License-Identifier: MIT
//
// The first half of translation: which guest instructions become one fragment.
#include <cpuid.h>

#include <algorithm>

#include "emu/translator.h"

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

Terminator terminator_of(InsnKind kind) {
  switch (kind) {
    case InsnKind::ordinary: return Terminator::none;
    case InsnKind::conditional:
    case InsnKind::counter_branch: return Terminator::conditional;
    case InsnKind::jump:
    case InsnKind::transaction: return Terminator::jump;
    case InsnKind::call: return Terminator::call;
    case InsnKind::indirect_jump: return Terminator::indirect_jump;
    case InsnKind::indirect_call: return Terminator::indirect_call;
    case InsnKind::ret: return Terminator::ret;
    case InsnKind::syscall: return Terminator::syscall;
    case InsnKind::native:
    case InsnKind::unsupported: return Terminator::native;
  }
  return Terminator::native;
}

// Where a processor has no transactions, xbegin is an undefined instruction.
bool has_transactions() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_RTM) != 0;
  }();
  return has;
}

GprMask registers_of(const Insn& insn) { return insn.reads | insn.writes; }

}  // namespace

// An instruction at the end of its region may continue in the next one.
Insn Translator::fetch_insn(GuestAddr pc, const CodeRegion& region) {
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes;
  size_t size = std::min<uint64_t>(bytes.size(), static_cast<uint64_t>(region.range.end - pc));
  size = source_.fetch(pc, std::span(bytes).first(size));
  Insn insn = decoder::decode(std::span(bytes).first(size), pc);
  if (insn.length == 0 && size < bytes.size() && source_.region(region.range.end).range.size() != 0) {
    size += source_.fetch(pc + size, std::span(bytes).subspan(size));
    insn = decoder::decode(std::span(bytes).first(size), pc);
  }
  if (insn.kind == InsnKind::transaction && !has_transactions()) insn.kind = InsnKind::native;
  // When tracing, the GS base is ours.
  if (insn.uses_gs && !counting()) {
    insn.kind = InsnKind::unsupported;
    insn.unsupported_reason = "it uses the gs segment";
  }
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
  CHECK(free != 0, "no register is free to stand in for r15");
  substitute_ = static_cast<decoder::Gpr>(std::countr_zero(free));
}

void Translator::add_block(uint32_t first_insn, const CodeRegion& region, Terminator terminator) {
  const Insn& first = insns_[first_insn];
  const Insn& last = insns_.back();
  trace::Block block;
  block.start = first.address;
  block.end = last.length != 0 ? last.next() : last.address + 1;
  block.last_insn = last.address;
  block.target = last.branch_target;
  block.module = region.module;
  block.insns = static_cast<uint16_t>(insns_.size() - first_insn);
  block.terminator = terminator;

  std::vector<uint8_t> code;
  for (uint32_t i = first_insn; i < insns_.size(); i++)
    code.insert(code.end(), insns_[i].bytes.begin(), insns_[i].bytes.begin() + insns_[i].length);

  // The same code gives the same block, whichever fragment it is met in.
  const auto [it, is_new] = block_by_start_.try_emplace(block.start);
  if (!is_new) {
    const trace::Block& known = table_.block(it->second);
    const bool same = known.end == block.end && known.insns == block.insns &&
                      known.terminator == block.terminator && known.target == block.target &&
                      known.module == block.module &&
                      std::ranges::equal(table_.code(known), code);
    if (!same) it->second = table_.add_block(block, code);
  } else {
    it->second = table_.add_block(block, code);
  }
  blocks_.push_back({it->second, first_insn, static_cast<uint32_t>(insns_.size())});
  block_ids_.push_back(it->second);
}

std::optional<GuestAddr> Translator::plan_block(GuestAddr pc, const CodeRegion& region) {
  const auto first = static_cast<uint32_t>(insns_.size());
  for (GuestAddr at = pc;; at = insns_.back().next()) {
    const size_t count = insns_.size() - first;
    const auto split = [&] {
      if (count > 0) add_block(first, region, Terminator::none);
      return std::nullopt;
    };
    if (count == limits::kMaxBlockInsns || !region.range.contains(at)) return split();
    const Insn insn = fetch_insn(at, region);
    const bool alone = insn.kind == InsnKind::native || insn.kind == InsnKind::unsupported;
    if (alone && !insns_.empty()) return split();
    // Across the end of a region: on its own, as the next one may have other rules.
    if (!insns_.empty() && insn.next() > region.range.end) return split();
    if (!alone && !fits_substitute(insn)) return split();

    insns_.push_back(insn);
    used_registers_ |= registers_of(insn);
    if (insn.is_terminator()) {
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
  const int64_t distance = target - insns_[0].address;
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
