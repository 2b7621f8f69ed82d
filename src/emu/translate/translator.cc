// SPDX-License-Identifier: MIT
//
// The second half of translation: writing a planned fragment as code. What it records is
// in translator_records.cc.
#include "emu/translate/translator.h"

#include <algorithm>
#include <bit>

#include "emu/translate/trap_flag.h"
#include "emu/translate/x87_pointer.h"

namespace shadowprof::emu {
namespace {

using decoder::Gpr;
using decoder::gpr_bit;
using decoder::GprMask;
using decoder::Insn;
using decoder::InsnKind;
using decoder::kR15;
using decoder::kRax;
using decoder::kRcx;
using decoder::kRdx;
using trace::RunExit;
using trace::SlotKind;

// More than any fragment needs: 4 blocks of 64 instructions with every capture on.
constexpr size_t kRoomBytes = size_t{1} << 16;

constexpr size_t kR15Field = offsetof(StatePage, guest_r15);
constexpr size_t kSubstituteField = offsetof(StatePage, spill_substitute);

}  // namespace

Translator::Translation Translator::translate(GuestAddr pc, std::optional<RunId> site,
                                              CapturePlan plan) {
  CodeRegion region = source_.region(pc);
  if (region.range.size() == 0) return {Outcome::no_code, {}};
  region.may_change = region.may_change || continues_in_changing_code(pc, region);
  plan_ = plan;
  if (!plan_fragment(pc, region)) return {Outcome::no_code, {}};

  if (cache_.room(3 * kRoomBytes).empty()) return {Outcome::cache_full, {}};
  const auto in_bouts = fragment_of_bouts(pc, region);
  if (site) cache_.begin_entry(pc, {*site, block_ids_[0], inc_is_harmless_at(pc)});
  return {Outcome::translated, write_fragment(pc, region, in_bouts)};
}

FragmentId Translator::write_fragment(GuestAddr pc, const CodeRegion& region,
                                      std::optional<FragmentId> in_bouts) {
  Emitter e(cache_.room(kRoomBytes), cache_.next_address(), cache_.recording());
  body_in_bouts_ = in_bouts ? cache_.body_address(*in_bouts) : 0;
  emit_fragment(e, region);

  Fragment f;
  f.start = pc;
  f.end = table_.block(block_ids_.back()).end;
  f.insns = static_cast<uint16_t>(insns_.size());
  f.substitute = substitute_;
  f.checks_itself = region.may_change;
  f.of_bouts = plan_.of_bouts;
  f.in_bouts = in_bouts ? in_bouts->value + 1 : 0;
  f.longest_run = last_run_;
  if (stale_trap_ != 0) f.stale_trap = cache_.used() + stale_trap_;
  const InsnKind first = insns_[0]->kind;
  if (first == InsnKind::native) f.kind = FragmentKind::native;
  if (first == InsnKind::unsupported) {
    f.kind = FragmentKind::unsupported;
    f.unsupported_reason = insns_[0]->unsupported_reason;
  }
  return cache_.commit(f, ranges_, points_, exits_, e.offset());
}

void Translator::emit_fragment(Emitter& e, const CodeRegion& region) {
  points_.clear();
  exits_.clear();
  slots_.clear();
  stubs_.clear();
  constants_.clear();
  stale_jumps_.clear();
  stale_trap_ = 0;
  captured_ = {};
  wish_ = {};
  substitute_active_ = false;
  if (plan_.wishes != nullptr)
    for (const BlockId block : block_ids_) plan_.wishes->meet(block);

  const bool alone =
      insns_[0]->kind == InsnKind::native || insns_[0]->kind == InsnKind::unsupported;
  if (alone) {
    mark_point(e, 0);
    e.int3();
    last_run_ = make_run(RunExit::native, 1, 1, 0, GuestAddr());
    return;
  }
  if (region.may_change) emit_self_check(e);
  if (body_in_bouts_ != 0) emit_bout_check(e);
  if (plan_.stack_pointer) capture_register(e, SlotKind::base, decoder::kRsp, 0);
  if (plan_.of_bouts) capture_bout(e);
  if (plan_.moments && is_behind_system_call(insns_[0]->address)) capture_moment(e, false, 0);
  for (uint32_t i = 0; i < insns_.size(); i++) emit_insn(e, i);
  if (!insns_.back()->is_terminator()) {
    emit_direct_exit(e, RunExit::split, static_cast<uint32_t>(blocks_.size()),
                     static_cast<uint32_t>(insns_.size()), slots_.size(), insns_.back()->next());
  }
  emit_stubs(e);
  if (!stale_jumps_.empty()) {
    for (uint32_t field : stale_jumps_) e.land_rel32(field);
    stale_trap_ = e.offset();
    e.load_state(kRcx, offsetof(StatePage, spill_rcx));
    e.load_state(kRdx, offsetof(StatePage, spill_rdx));
    stale_trap_ = e.offset();
    e.int3();
  }
  emit_constants(e);
  SP_CHECK(e.offset() <= UINT16_MAX, "a fragment of {} bytes", e.offset());
}

// Compares the guest's bytes with what was translated, eight at a time.
void Translator::emit_self_check(Emitter& e) {
  std::vector<uint8_t> expected;
  for (const Insn* insn : insns_) {
    expected.insert(expected.end(), insn->bytes.begin(), insn->bytes.begin() + insn->length);
  }
  mark_point(e, 0);
  e.store_state(offsetof(StatePage, spill_rcx), kRcx);
  e.store_state(offsetof(StatePage, spill_rdx), kRdx);
  const GuestAddr start = insns_[0]->address;
  for (size_t done = 0; done < expected.size();) {
    const size_t size = std::bit_floor(std::min<size_t>(8, expected.size() - done));
    uint64_t value = 0;
    std::memcpy(&value, &expected[done], size);
    e.mov_imm(kRdx, -value);
    e.mov_imm(kRcx, (start + done).value);
    switch (size) {
      case 8: e.bytes({0x48, 0x8b, 0x09}); break;   // mov rcx, [rcx]
      case 4: e.bytes({0x8b, 0x09}); break;         // mov ecx, [rcx]
      case 2: e.bytes({0x0f, 0xb7, 0x09}); break;   // movzx ecx, word [rcx]
      default: e.bytes({0x0f, 0xb6, 0x09}); break;  // movzx ecx, byte [rcx]
    }
    e.add_rdx_to_rcx();
    const uint32_t same = e.jrcxz_forward();
    stale_jumps_.push_back(e.jmp_forward());
    e.land_rel8(same);
    done += size;
  }
  e.load_state(kRcx, offsetof(StatePage, spill_rcx));
  e.load_state(kRdx, offsetof(StatePage, spill_rdx));
}

void Translator::emit_insn(Emitter& e, uint32_t index) {
  const Insn& insn = *insns_[index];
  if (insn.uses(kR15) && !substitute_active_) activate_substitute(e);
  if (plan_.addresses) capture_addresses(e, insn, index);
  if (plan_.wishes != nullptr) capture_wished(e, insn, index);
  switch (insn.kind) {
    case InsnKind::ordinary: emit_ordinary(e, insn, index); break;
    case InsnKind::conditional: emit_conditional(e, insn, index); break;
    case InsnKind::counter_branch: emit_counter_branch(e, insn, index); break;
    case InsnKind::jump:
    case InsnKind::call:
    case InsnKind::transaction: emit_jump_or_call(e, insn, index); break;
    case InsnKind::indirect_jump:
    case InsnKind::indirect_call: emit_indirect(e, insn, index); break;
    case InsnKind::ret: emit_ret(e, insn, index); break;
    case InsnKind::syscall: emit_syscall(e, insn, index); break;
    case InsnKind::native:
    case InsnKind::unsupported:
      SP_CHECK(false, "such an instruction is a fragment of its own");
  }
}

void Translator::emit_ordinary(Emitter& e, const Insn& insn, uint32_t index) {
  time_next_load(insn, index);
  // What reads memory for the record is the load then: the instruction itself finds it in the
  // cache.
  if (plan_.values && insn.compared_bits != 0) capture_compared(e, insn, index);
  if (plan_.values || wish_.divisor) capture_divisor(e, insn, index);
  if (plan_.stored) capture_stored(e, insn, index);
  if (pops_flags(insn)) {
    mark_point(e, index);
    const uint32_t over = emit_trap_flag_check(e);
    mark_point(e, index, kSetsTrapFlag);
    e.int3();
    e.land_rel32(over);
  }
  const auto stored = stored_pointer(insn);
  if (stored) emit_before_pointer(e, *stored);
  emit_copy(e, insn, index);
  if (stored) {
    const uint32_t over = emit_pointer_check(e, insn, patched(insn, substitute_), *stored,
                                             {cache_.base(), cache_.size()});
    mark_point(e, index, kPointerStored);
    e.int3();
    e.land_rel32(over);
  }
  captured_.pass(insn);
  if (plan_.values || wish_.results) {
    capture_results(e, insn, index);
  } else if (plan_.load_cycles && insn.pure_load && insn.result < 16) {
    capture_register(e, SlotKind::value, insn.result, index);
  }
}

std::array<uint8_t, decoder::kMaxInsnBytes> Translator::patched(const Insn& insn, Gpr substitute) {
  auto bytes = insn.bytes;
  for (uint8_t i = 0; i < insn.r15_field_count; i++) {
    const decoder::RegisterField& field = insn.r15_fields[i];
    const uint8_t low = field.inverted ? static_cast<uint8_t>(~substitute & 7)
                                       : static_cast<uint8_t>(substitute & 7);
    bytes[field.byte] = static_cast<uint8_t>((bytes[field.byte] & ~(7u << field.shift)) |
                                             static_cast<unsigned>(low) << field.shift);
  }
  return bytes;
}

void Translator::emit_copy(Emitter& e, const Insn& insn, uint32_t index) {
  if (insn.lea64 && insn.rip_relative) {
    mark_point(e, index);
    e.mov_imm(stand_in(insn.result), insn.rip_target.value);
    return;
  }
  if (insn.rip_relative && !e.reachable(insn.rip_target.value)) {
    emit_far_operand(e, insn, index);
    return;
  }
  begin_timing(e);
  mark_point(e, index);
  auto bytes = patched(insn, substitute_);
  if (insn.rip_relative) {
    const auto displacement =
        static_cast<uint32_t>(insn.rip_target.value - (e.here() + insn.length));
    std::memcpy(&bytes[insn.displacement_offset], &displacement, 4);
  }
  e.copy(std::span(bytes).first(insn.length));
  end_timing(e);
}

// [rip + x] out of reach becomes [reg + 0]; the modrm byte changes from mod 0, rm 5 to mod 2, rm
// reg, which has a 32-bit displacement in the same place.
void Translator::emit_far_operand(Emitter& e, const Insn& insn, uint32_t index) {
  auto bytes = patched(insn, substitute_);
  std::memset(&bytes[insn.displacement_offset], 0, 4);
  const auto use_base = [&](Gpr r) {
    bytes[insn.modrm_offset] =
        static_cast<uint8_t>((bytes[insn.modrm_offset] & 0x38) | 0x80 | (r & 7));
  };

  // A load can keep the address in its own destination, whose old value only a fault needs. rsp and
  // r12 cannot be a base without a SIB byte.
  const bool own_destination = insn.pure_load && insn.whole_result && !insn.base_bit &&
                               (insn.result & 7) != 4 && insn.result != kR15;
  if (own_destination) {
    mark_point(e, index);
    e.store_state(kAddressField, insn.result);
    e.mov_imm(insn.result, insn.rip_target.value);
    begin_timing(e);
    mark_point(e, index, kAddressSpilled, insn.result);
    use_base(insn.result);
    if (insn.result >= 8) bytes[insn.rex_offset] |= 0x01;
    e.copy(std::span(bytes).first(insn.length));
    end_timing(e);
    return;
  }

  const GprMask low = 0x00ef;   // rax..rdi but rsp
  const GprMask high = 0x6f00;  // r8..r14 but r12
  GprMask free = insn.base_bit ? high : low;
  free &= static_cast<GprMask>(~(insn.reads | insn.writes));
  if (substitute_ < 16) free &= static_cast<GprMask>(~gpr_bit(substitute_));
  SP_CHECK(free != 0, "no register is free to hold an address");
  const auto scratch = static_cast<Gpr>(std::countr_zero(free));
  mark_point(e, index);
  e.store_state(kAddressField, scratch);
  e.mov_imm(scratch, insn.rip_target.value);
  begin_timing(e);
  mark_point(e, index, kAddressSpilled, scratch);
  use_base(scratch);
  e.copy(std::span(bytes).first(insn.length));
  end_timing(e);
  e.load_state(scratch, kAddressField);
}

void Translator::emit_conditional(Emitter& e, const Insn& insn, uint32_t index) {
  mark_point(e, index);
  const uint32_t insns = index + 1;
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const PlannedBlock& b) { return b.end_insn == insns; });
  const auto blocks = static_cast<uint32_t>(block - blocks_.begin() + 1);
  if (insns < insns_.size()) {
    stubs_.push_back({e.jcc_forward(insn.condition), blocks, insns, insn.branch_target,
                      slots_.size(), substitute_active_});
    return;
  }
  const uint32_t over = e.jcc_forward(insn.condition ^ 1);
  emit_direct_exit(e, RunExit::taken, blocks, insns, slots_.size(), insn.branch_target);
  e.land_rel32(over);
  emit_direct_exit(e, RunExit::not_taken, blocks, insns, slots_.size(), insn.next());
}

void Translator::emit_counter_branch(Emitter& e, const Insn& insn, uint32_t index) {
  const auto blocks = static_cast<uint32_t>(blocks_.size());
  mark_point(e, index);
  e.copy(std::span(insn.bytes).first(insn.length - 1u));
  e.byte(0);
  const uint32_t taken = e.offset() - 1;
  emit_direct_exit(e, RunExit::not_taken, blocks, index + 1, slots_.size(), insn.next());
  e.land_rel8(taken);
  emit_direct_exit(e, RunExit::taken, blocks, index + 1, slots_.size(), insn.branch_target);
}

// Jumps, calls, and transactions, which abort at once with status 0. Inside a fragment nothing is
// left of a jump, and of a call the pushed address.
void Translator::emit_jump_or_call(Emitter& e, const Insn& insn, uint32_t index) {
  mark_point(e, index);
  RunExit exit = RunExit::jump;
  if (insn.kind == InsnKind::call) {
    emit_push_return(e, insn.next());
    captured_.pass(insn);
    exit = RunExit::call;
  }
  if (insn.kind == InsnKind::transaction) e.bytes({0xb8, 0, 0, 0, 0});  // mov eax, 0
  if (index + 1 < insns_.size()) return;
  emit_direct_exit(e, exit, static_cast<uint32_t>(blocks_.size()), index + 1, slots_.size(),
                   insn.branch_target);
}

void Translator::emit_push_return(Emitter& e, GuestAddr return_address) {
  const uint64_t v = return_address.value;
  if (v <= INT32_MAX) {
    e.push_imm32(static_cast<int32_t>(v));
  } else {
    constants_.emplace_back(e.push_rip_forward(), v);
  }
}

// The memory or register operand behind the modrm byte of an instruction with a one-byte opcode, as
// the source of a mov (or movzx) into another register, whose own value is parked.
void Translator::emit_operand_load(Emitter& e, const Insn& insn, uint32_t index, OperandLoad to) {
  const auto bytes = patched(insn, substitute_);
  std::vector<uint8_t> load;
  auto rex = static_cast<uint8_t>(0x40 | (to.bits == 64 ? 0x08 : 0) | (to.reg >> 3) << 2);
  for (uint8_t i = 0; i < insn.opcode_offset; i++) {
    const uint8_t b = bytes[i];
    if (b == 0x64 || b == 0x65 || b == 0x67) load.push_back(b);  // fs, gs, 32-bit address
  }
  if (insn.rex_offset != decoder::kNoRex)
    rex = static_cast<uint8_t>(rex | (bytes[insn.rex_offset] & 0x03));
  const bool far = insn.rip_relative && !e.reachable(insn.rip_target.value);
  load.push_back(far ? static_cast<uint8_t>((rex & ~3) | to.reg >> 3) : rex);
  if (to.bits >= 32) {
    load.push_back(0x8b);
  } else {
    load.push_back(0x0f);
    load.push_back(to.bits == 8 ? 0xb6 : 0xb7);
  }
  const size_t modrm_at = load.size();
  load.insert(load.end(), bytes.begin() + insn.opcode_offset + 1,
              bytes.begin() + insn.length - insn.immediate_bytes);
  load[modrm_at] = static_cast<uint8_t>((load[modrm_at] & 0xc7) | (to.reg & 7) << 3);
  if (far) {
    e.mov_imm(to.reg, insn.rip_target.value);
    begin_timing(e);
    mark_point(e, index, static_cast<uint8_t>(to.when_spilled | to.always), to.reg);
    load.resize(modrm_at + 1);
    load[modrm_at] = static_cast<uint8_t>((to.reg & 7) << 3 | (to.reg & 7));  // mov reg, [reg]
    e.copy(load);
    end_timing(e);
    return;
  }
  begin_timing(e);
  if (insn.rip_relative) {
    const auto displacement =
        static_cast<uint32_t>(insn.rip_target.value - (e.here() + load.size()));
    std::memcpy(&load[modrm_at + 1], &displacement, 4);
  }
  mark_point(e, index, to.always);
  e.copy(load);
  end_timing(e);
}

void Translator::emit_indirect(Emitter& e, const Insn& insn, uint32_t index) {
  mark_point(e, index);
  time_next_load(insn, index);
  e.spill_branch_registers(record_end());
  emit_operand_load(e, insn, index, {kRcx, 64, kRcxSpilled});
  RunExit exit = RunExit::indirect_jump;
  if (insn.kind == InsnKind::indirect_call) {
    mark_point(e, index, kRcxSpilled);
    emit_push_return(e, insn.next());
    exit = RunExit::indirect_call;
  }
  restore_substitute(e);
  const RunId run =
      make_run(exit, static_cast<uint32_t>(blocks_.size()), index + 1, slots_.size(), {});
  emit_branch_dispatch(e, run);
}

void Translator::emit_ret(Emitter& e, const Insn& insn, uint32_t index) {
  mark_point(e, index);
  time_next_load(insn, index);
  e.spill_branch_registers(record_end());
  begin_timing(e);
  mark_point(e, index);
  e.pop_rcx();
  end_timing(e);
  if (insn.ret_pop_bytes != 0) e.add_to_rsp(insn.ret_pop_bytes);
  restore_substitute(e);
  const RunId run = make_run(RunExit::ret, static_cast<uint32_t>(blocks_.size()), index + 1,
                             slots_.size(), {});
  emit_branch_dispatch(e, run);
}

void Translator::emit_syscall(Emitter& e, const Insn& insn, uint32_t index) {
  mark_point(e, index);
  if (plan_.moments) capture_moment(e, true, index);
  restore_substitute(e);
  emit_record(e, make_run(RunExit::syscall, static_cast<uint32_t>(blocks_.size()), index + 1,
                          slots_.size(), insn.next()));
  e.mov_imm(kRcx, insn.next().value);
  e.jmp_rel32(cache_.gateway_address());
}

// rcx is the target. When counting, the entry that it reaches counts the pair.
void Translator::emit_branch_dispatch(Emitter& e, RunId site) {
  if (tracing() && table_.run(site).recorded) emit_trace_record(e, site);
  const uint32_t at_end = options_.count_turns ? emit_branch_turn_check(e) : 0;
  const uint64_t start = e.here();
  if (counting()) {
    while ((e.here() + 1) % 64 > 60) e.byte(0x90);  // nop
    const uint32_t field = e.jmp_forward();
    e.land_rel32(field);
    cache_.add_site(site, field, e.offset());
    e.store_site(offsetof(StatePage, site), site.value);
    e.add_imm_to_rcx(cache_.site_number(site));
  }
  e.movzx_edx_cx();
  e.jmp_table_rdx(kBranchTableOffset);
  if (options_.count_turns) emit_branch_turn_end(e, at_end, start);
}

void Translator::emit_stubs(Emitter& e) {
  for (const Stub& stub : stubs_) {
    e.land_rel32(stub.jcc_field);
    substitute_active_ = stub.substitute_active;
    emit_direct_exit(e, RunExit::taken, stub.blocks, stub.insns, stub.slots, stub.target);
  }
}

void Translator::emit_constants(Emitter& e) {
  while (!constants_.empty() && (e.here() & 7) != 0) e.byte(0xcc);
  for (const auto& [field, value] : constants_) {
    e.land_rel32(field);
    e.u64(value);
  }
}

// The two points of one place (an instruction whose preparation is empty) are one.
void Translator::mark_point(Emitter& e, uint32_t index, uint8_t recovery, Gpr reg) {
  Point p;
  p.cache_offset = static_cast<uint16_t>(e.offset());
  p.guest_delta = static_cast<int32_t>(insns_[index]->address - insns_[0]->address);
  p.insn = static_cast<uint16_t>(index);
  p.recovery = static_cast<uint8_t>(recovery | (substitute_active_ ? kSubstituteHoldsR15 : 0));
  p.reg = reg;
  if (!points_.empty() && points_.back().cache_offset == p.cache_offset) {
    points_.back() = p;
    return;
  }
  points_.push_back(p);
}

void Translator::activate_substitute(Emitter& e) {
  e.store_state(kSubstituteField, substitute_);
  e.load_state(substitute_, kR15Field);
  substitute_active_ = true;
}

void Translator::restore_substitute(Emitter& e) {
  if (!substitute_active_) return;
  e.store_state(kR15Field, substitute_);
  e.load_state(substitute_, kSubstituteField);
}

void Translator::emit_direct_exit(Emitter& e, RunExit exit, uint32_t blocks, uint32_t insns,
                                  size_t slots, GuestAddr target) {
  restore_substitute(e);
  const RunId run = make_run(exit, blocks, insns, slots, target);
  emit_record(e, run);
  const bool checks = options_.count_turns && goes_back(blocks, target);
  const TurnCheck check = checks ? emit_turn_check(e, target) : TurnCheck{};
  // The rel32 must not cross a cache line: it is rewritten while other threads run through it.
  while ((e.here() + 1) % 64 > 60) e.byte(0x90);  // nop
  const uint64_t jump = e.here();
  Exit out;
  out.jump_field = cache_.used() + e.jmp_forward();
  out.target = target;
  out.run = run;
  exits_.push_back(out);
  e.int3();
  if (checks) emit_turn_end(e, check, jump);
}

}  // namespace shadowprof::emu
