// SPDX-License-Identifier: MIT
#include "emu/guest_blocks.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace shadowprof::emu {
namespace {

using decoder::Insn;
using decoder::InsnKind;
using trace::Terminator;

// Where a processor has no transactions, xbegin is an undefined instruction.
bool has_transactions() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_RTM) != 0;
  }();
  return has;
}

bool is_same(const trace::Block& a, const trace::Block& b) {
  return a.end == b.end && a.insns == b.insns && a.terminator == b.terminator &&
         a.target == b.target && a.module == b.module;
}

}  // namespace

Terminator terminator_of(InsnKind kind) {
  switch (kind) {
    case InsnKind::ordinary:
      return Terminator::none;
    case InsnKind::conditional:
    case InsnKind::counter_branch:
      return Terminator::conditional;
    case InsnKind::jump:
    case InsnKind::transaction:
      return Terminator::jump;
    case InsnKind::call:
      return Terminator::call;
    case InsnKind::indirect_jump:
      return Terminator::indirect_jump;
    case InsnKind::indirect_call:
      return Terminator::indirect_call;
    case InsnKind::ret:
      return Terminator::ret;
    case InsnKind::syscall:
      return Terminator::syscall;
    case InsnKind::native:
    case InsnKind::unsupported:
      return Terminator::native;
  }
  return Terminator::native;
}

Insn GuestBlocks::read_insn(GuestAddr pc, const CodeRegion& region) const {
  const std::span<const uint8_t> at_hand = source_.at_hand(pc);
  const bool enough = at_hand.size() >= decoder::kMaxInsnBytes &&
                      region.range.contains(pc + (decoder::kMaxInsnBytes - 1));
  Insn insn =
      enough ? decoder::decode(at_hand.first(decoder::kMaxInsnBytes), pc) : fetch_insn(pc, region);
  if (insn.kind == InsnKind::transaction && !has_transactions()) insn.kind = InsnKind::native;
  return insn;
}

Insn GuestBlocks::fetch_insn(GuestAddr pc, const CodeRegion& region) const {
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes;
  size_t size = std::min<uint64_t>(bytes.size(), static_cast<uint64_t>(region.range.end - pc));
  size = source_.fetch(pc, std::span(bytes).first(size));
  Insn insn = decoder::decode(std::span(bytes).first(size), pc);
  const bool cut = insn.length == 0 && size < bytes.size();
  if (cut && source_.region(region.range.end).range.size() != 0) {
    size += source_.fetch(pc + size, std::span(bytes).subspan(size));
    insn = decoder::decode(std::span(bytes).first(size), pc);
  }
  return insn;
}

BlockId GuestBlocks::block_of(std::span<const Insn* const> insns, ModuleId module,
                              Terminator terminator) {
  const Insn& last = *insns.back();
  trace::Block block;
  block.start = insns.front()->address;
  block.end = last.length != 0 ? last.next() : last.address + 1;
  block.last_insn = last.address;
  block.target = last.branch_target;
  block.module = module;
  block.insns = static_cast<uint16_t>(insns.size());
  block.terminator = terminator;

  SP_CHECK(insns.size() <= limits::kMaxBlockInsns, "a block of {} instructions", insns.size());
  uint8_t* end = code_.data();
  for (const Insn* insn : insns) {
    // All of the array, as that is two moves; what is too much is overwritten.
    std::memcpy(end, insn->bytes.data(), insn->bytes.size());
    end += insn->length;
  }
  const std::span<const uint8_t> code(code_.data(), end);

  std::optional<BlockId>& id = known_.at(block.start);
  const bool known = id && is_same(table_.block(*id), block) &&
                     std::ranges::equal(table_.code(table_.block(*id)), code);
  if (!known) id = table_.add_block(block, code);
  return *id;
}

}  // namespace shadowprof::emu
