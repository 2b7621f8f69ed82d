// SPDX-License-Identifier: MIT
//
// What the code of a fragment records: captured values, counters, and the runs that its exits are.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "decoder/divisor.h"
#include "emu/translate/translator.h"

namespace shadowprof::emu {
namespace {

using decoder::Gpr;
using decoder::GprMask;
using decoder::Insn;
using decoder::InsnKind;
using decoder::kRcx;
using trace::RunExit;
using trace::SlotKind;

}  // namespace

void Translator::capture_register(Emitter& e, SlotKind kind, Gpr reg, uint32_t index) {
  const uint32_t displacement = next_slot_displacement();
  slots_.push_back({kind, reg, static_cast<uint16_t>(index)});
  e.store_cursor_reg(displacement, stand_in(reg));
  captured_.capture(reg);
}

void Translator::capture_addresses(Emitter& e, const Insn& insn, uint32_t index) {
  for (uint8_t i = 0; i < insn.access_count; i++) {
    const decoder::MemoryAccess& a = insn.accesses[i];
    if (a.base < 16 && !captured_.tells(a.base)) {
      capture_register(e, SlotKind::base, a.base, index);
    }
    if (a.index < 16 && !captured_.tells(a.index)) {
      capture_register(e, SlotKind::index, a.index, index);
    }
  }
}

void Translator::capture_results(Emitter& e, const Insn& insn, uint32_t index) {
  if (insn.result < 16) capture_register(e, SlotKind::value, insn.result, index);
  if (insn.second_result < 16 && insn.second_result != insn.result)
    capture_register(e, SlotKind::value, insn.second_result, index);
  const auto kind = element_slot(insn);
  if (!kind) return;
  const uint8_t reg = insn.element_result.reg;
  if (*kind == SlotKind::mask)
    e.store_cursor_mask(next_slot_displacement(), reg);
  else
    e.store_cursor_xmm(next_slot_displacement(), reg, insn.vex);
  slots_.push_back({*kind, reg, static_cast<uint16_t>(index)});
}

void Translator::time_next_load(const Insn& insn, uint32_t index) {
  stamps_ = {};
  if (!plan_.load_cycles && !wish_.cycles) return;
  if (insn.load == decoder::LoadKind::none) return;
  const auto at = static_cast<uint16_t>(index);
  if (std::ranges::find(slots_, SlotKind::stamps, &trace::Slot::kind) == slots_.end()) {
    stamps_.empty = next_slot_displacement();
    slots_.push_back({SlotKind::stamps, 0, at});
  }
  stamps_.load = next_slot_displacement();
  slots_.push_back({SlotKind::load_cycles, insn.result, at});
}

void Translator::begin_timing(Emitter& e) {
  if (stamps_.load != 0) emit_first_stamp(e, stamps_);
}

void Translator::end_timing(Emitter& e) {
  if (stamps_.load != 0) emit_second_stamp(e, std::exchange(stamps_, {}));
}

// Registers as far as the record does not hold them yet.
void Translator::capture_compared(Emitter& e, const Insn& insn, uint32_t index) {
  for (const decoder::ComparedOperand& side : insn.compared) {
    if (side.kind == decoder::ComparedOperand::Kind::reg && !captured_.holds(side.reg))
      capture_register(e, SlotKind::compared, side.reg, index);
    if (side.kind != decoder::ComparedOperand::Kind::memory) continue;
    capture_memory(e, insn, index, insn.compared_bits);
  }
}

void Translator::capture_stored(Emitter& e, const Insn& insn, uint32_t index) {
  if (insn.stored.how == decoder::StoredOperand::How::none) return;
  if (insn.stored.reg < 16 && !captured_.holds(insn.stored.reg))
    capture_register(e, SlotKind::compared, insn.stored.reg, index);
  capture_memory(e, insn, index, insn.stored.bits, kReadsAhead);
}

// A division's: what it leaves behind tells nothing of it.
void Translator::capture_divisor(Emitter& e, const Insn& insn, uint32_t index) {
  const auto divisor = decoder::divisor_of(insn);
  if (!divisor) return;
  if (divisor->in_memory) return capture_memory(e, insn, index, divisor->bits);
  if (!captured_.holds(divisor->reg)) capture_register(e, SlotKind::compared, divisor->reg, index);
}

// Memory is read right before the instruction, so what faults is this, and the guest's registers
// are its own then. The fault of a store is not that of a load: kReadsAhead.
void Translator::capture_memory(Emitter& e, const Insn& insn, uint32_t index, uint8_t bits,
                                Recovery recovery) {
  constexpr GprMask kLow = 0x00cf;  // rax to rbx, rsi, rdi
  const GprMask free = kLow & static_cast<GprMask>(~(insn.reads | insn.writes));
  SP_CHECK(free != 0, "no register is free to hold an operand");
  const auto scratch = static_cast<Gpr>(std::countr_zero(free));
  mark_point(e, index);
  e.store_state(kAddressField, scratch);
  emit_operand_load(e, insn, index, {scratch, bits, kAddressSpilled, recovery});
  e.store_cursor_reg(next_slot_displacement(), scratch);
  slots_.push_back({SlotKind::memory, 0, static_cast<uint16_t>(index)});
  e.load_state(scratch, kAddressField);
}

bool Translator::is_behind_system_call(GuestAddr pc) {
  constexpr std::array<uint8_t, 2> kSyscall = {0x0f, 0x05};
  std::array<uint8_t, kSyscall.size()> before{};
  return source_.region(pc - before.size()).range.size() != 0 &&
         source_.fetch(pc - before.size(), before) == before.size() && before == kSyscall;
}

void Translator::capture_moment(Emitter& e, bool before_call, uint32_t index) {
  emit_time_stamp(e, next_slot_displacement());
  slots_.push_back({SlotKind::moment, before_call, static_cast<uint16_t>(index)});
}

void Translator::capture_wished(Emitter& e, const Insn& insn, uint32_t index) {
  size_t block = blocks_.size() - 1;
  while (blocks_[block].first_insn > index) block--;
  wish_ = plan_.wishes->wish(block_ids_[block], insn, index == blocks_[block].first_insn);
  if (wish_.addresses) capture_addresses(e, insn, index);
  for (Gpr reg = 0; reg < 16; reg++) {
    if ((wish_.registers & decoder::gpr_bit(reg)) == 0 || captured_.tells(reg)) continue;
    if (reg != decoder::kR15 || substitute_active_) {
      capture_register(e, SlotKind::base, reg, index);
      continue;
    }
    const uint32_t displacement = next_slot_displacement();
    mark_point(e, index);
    e.store_state(kAddressField, decoder::kRax);
    e.load_state(decoder::kRax, offsetof(StatePage, guest_r15));
    e.store_cursor_reg(displacement, decoder::kRax);
    e.load_state(decoder::kRax, kAddressField);
    slots_.push_back({SlotKind::base, reg, static_cast<uint16_t>(index)});
    captured_.capture(reg);
  }
}

RunId Translator::make_run(RunExit exit, uint32_t blocks, uint32_t insns, size_t slots,
                           GuestAddr target) {
  trace::Run run;
  run.insns = insns;
  run.exit = exit;
  run.target = target;
  run.captures = plan_.captures() && !plan_.of_bouts;
  run.of_bouts = plan_.of_bouts;
  run.recorded = is_recorded(slots);
  run.last_block_insns = static_cast<uint16_t>(insns - blocks_[blocks - 1].first_insn);
  RunId id = table_.add_run(run, std::span(block_ids_).first(blocks),
                            std::span(slots_).first(slots));
  if (id == kAnySite && is_indirect(exit)) {
    id = table_.add_run(run, std::span(block_ids_).first(blocks), std::span(slots_).first(slots));
  }
  if (blocks == blocks_.size()) last_run_ = id;
  return id;
}

void Translator::emit_record(Emitter& e, RunId run) {
  if (tracing() && table_.run(run).recorded) emit_trace_record(e, run);
  if (counting()) emit_count(e, run);
}

// For a direct exit or a system call.
void Translator::emit_count(Emitter& e, RunId id) {
  const trace::Run& run = table_.run(id);
  const size_t field = counter_offset(cache_.recording(), cache_.add_counter({id, {}, false}));
  if (run.exit == RunExit::syscall) {  // rcx is free
    e.load_state(kRcx, field);
    e.add_imm_to_rcx(1);
    e.store_state(field, kRcx);
  } else if (inc_is_harmless_at(run.target)) {
    e.inc_state(field);
  } else {
    e.spill_rcx();
    e.load_state(kRcx, field);
    e.add_imm_to_rcx(1);
    e.store_state(field, kRcx);
    e.restore_rcx();
  }
}

bool Translator::inc_is_harmless_at(GuestAddr pc) {
  constexpr int kLookAhead = 12;
  if (const auto* known = harmless_.find(pc)) return **known;
  uint8_t open = decoder::kPf | decoder::kAf | decoder::kZf | decoder::kSf | decoder::kOf;
  const CodeRegion region = source_.region(pc);
  GuestAddr at = pc;
  for (int i = 0; i < kLookAhead && open != 0 && !region.may_change && region.range.contains(at);
       i++) {
    const Insn& insn = fetch_insn(at, region);
    if (insn.flags_read & open) break;
    if (insn.may_fault && insn.kind != InsnKind::jump) break;  // a handler would see the flags
    open &= static_cast<uint8_t>(~insn.flags_written);
    if (insn.kind == InsnKind::ordinary) {
      at = insn.next();
    } else if (insn.kind == InsnKind::jump || insn.kind == InsnKind::call) {
      at = insn.branch_target;
    } else {
      break;
    }
  }
  harmless_.at(pc) = open == 0;
  return open == 0;
}

void Translator::emit_trace_record(Emitter& e, RunId run) {
  e.store_cursor_imm32(run.value);
  e.advance_cursor(4u * table_.run(run).words);
}

std::optional<RunId> Translator::interrupted_run(const Fragment& fragment, uint32_t insns) {
  if (insns == 0) return std::nullopt;
  const uint64_t key = uint64_t{fragment.longest_run.value} << 16 | insns;
  if (const auto it = interrupted_.find(key); it != interrupted_.end()) return it->second;

  const trace::Run longest = table_.run(fragment.longest_run);
  trace::Run run;
  run.insns = insns;
  run.exit = RunExit::interrupted;
  run.captures = longest.captures;
  run.of_bouts = longest.of_bouts;
  uint32_t left = insns;
  size_t blocks = 0;
  const auto all_blocks = table_.blocks(longest);
  while (left > table_.block(all_blocks[blocks]).insns)
    left -= table_.block(all_blocks[blocks++]).insns;
  run.last_block_insns = static_cast<uint16_t>(left);
  const auto all_slots = table_.slots(longest);
  const auto complete = std::find_if(all_slots.begin(), all_slots.end(),
                                     [&](const trace::Slot& s) { return s.insn >= insns; });
  const std::vector<BlockId> block_copy(all_blocks.begin(),
                                        all_blocks.begin() + static_cast<ptrdiff_t>(blocks) + 1);
  const std::vector<trace::Slot> slot_copy(all_slots.begin(), complete);
  const RunId id = table_.add_run(run, block_copy, slot_copy);
  interrupted_[key] = id;
  return id;
}

}  // namespace shadowprof::emu
