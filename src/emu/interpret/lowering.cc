// SPDX-License-Identifier: MIT
//
// A planned fragment as ops.
#include "emu/interpret/lowering.h"

#include <algorithm>

#include "decoder/divisor.h"
#include "emu/interpret/handlers.h"

namespace shadowprof::emu {
namespace {

using decoder::Code;
using decoder::Gpr;
using decoder::Insn;
using decoder::InsnKind;
using decoder::Operand;
using decoder::Operation;
using decoder::Segment;
using trace::RunExit;
using trace::SlotKind;
using Kind = Operand::Kind;

constexpr uint8_t kAllFlags = 0x3f;

uint8_t offset_of(Gpr reg) {
  return static_cast<uint8_t>(8 * reg);
}
uint8_t offset_of(const Operand& operand) {
  return static_cast<uint8_t>(8 * operand.reg + (operand.high ? 1 : 0));
}
uint8_t slot_of(Gpr reg) {
  return reg < 16 ? reg : kZeroSlot;
}
uint8_t slot_of(Segment segment) {
  return segment == Segment::fs ? kFsSlot : segment == Segment::gs ? kGsSlot : kZeroSlot;
}

std::optional<Form> form_of(const Operation& o) {
  const Kind a = o.operands[0].kind, b = o.operands[1].kind;
  if (a == Kind::reg && b == Kind::none) return Form::reg;
  if (a == Kind::memory && b == Kind::none) return Form::mem;
  if (a == Kind::reg && b == Kind::reg) return Form::reg_reg;
  if (a == Kind::reg && b == Kind::immediate) return Form::reg_imm;
  if (a == Kind::reg && b == Kind::memory) return Form::reg_mem;
  if (a == Kind::memory && b == Kind::reg) return Form::mem_reg;
  if (a == Kind::memory && b == Kind::immediate) return Form::mem_imm;
  return std::nullopt;
}

// imul dst, src, immediate: by where the source is.
std::optional<Form> form_of_product(const Operation& o) {
  if (o.operands[2].kind == Kind::none) return form_of(o);
  return o.operands[1].kind == Kind::memory ? Form::mem_imm : Form::reg_imm;
}

// An exchange with memory has its memory operand first.
Operation normalised(Operation o) {
  const bool swap = (o.code == Code::xchg || o.code == Code::test) &&
                    o.operands[0].kind == Kind::reg && o.operands[1].kind == Kind::memory;
  if (swap) std::swap(o.operands[0], o.operands[1]);
  return o;
}

Handler handler_for(const Operation& o, bool flags_live) {
  const auto form = o.code == Code::imul ? form_of_product(o) : form_of(o);
  if (!form) return nullptr;
  switch (o.code) {
    case Code::mov:
      return move_handler(o.operands[0].bits, *form);
    case Code::movzx:
    case Code::movsx:
      return extend_handler(o.code == Code::movsx, o.operands[1].bits, o.operands[0].bits, *form);
    case Code::cmov:
      return cmov_handler(o.variant, o.bits, *form);
    case Code::setcc:
      return setcc_handler(o.variant, *form);
    case Code::xchg:
      return exchange_handler(o.operands[0].bits, *form);
    case Code::bit:
      return bit_handler(o.variant, o.operands[0].bits);
    case Code::shl:
    case Code::shr:
    case Code::sar:
    case Code::rol:
    case Code::ror:
      return shift_handler(o.code, o.operands[0].bits, *form);
    default:
      return alu_handler(o.code, o.operands[0].bits, *form, flags_live);
  }
}

// Rotates by more than one leave OF undefined. Rotating a register by an immediate, some processors
// leave it as it was; by cl, which is how the handlers rotate, and in memory they compute it.
bool immediate_rotates_keep_overflow() {
  bool overflow;
  asm("movb $0x7f, %%al\n\taddb $1, %%al\n\trolb $2, %%al" : "=@cco"(overflow) : : "al");
  return overflow;
}

bool keeps_overflow(const Operation& o) {
  if (o.code != Code::rol && o.code != Code::ror) return false;
  if (form_of(o) != Form::reg_imm) return false;
  static const bool host_keeps = immediate_rotates_keep_overflow();
  const int64_t count = o.immediate & (o.operands[0].bits == 64 ? 63 : 31);
  return host_keeps && count > 1;
}

}  // namespace

std::optional<Lowered> Lowering::lower(GuestAddr pc, CapturePlan plan) {
  const CodeRegion region = source_.region(pc);
  if (region.range.size() == 0) return std::nullopt;
  plan_ = plan;
  out_ = {};
  out_.may_change = region.may_change;
  if (!plan_fragment(pc, region)) return std::nullopt;
  slots_.clear();
  taken_sides_.clear();
  captured_ = {};
  wish_ = {};
  if (plan_.wishes != nullptr)
    for (const BlockId block : block_ids_) plan_.wishes->meet(block);

  const std::vector<bool> live = live_flags();
  for (uint32_t i = 0; i < insns_.size(); i++) {
    out_.insns.push_back(insns_[i].address);
    lower_insn(i, live[i]);
  }
  if (!insns_.back().is_terminator()) {
    exit(RunExit::split, static_cast<uint32_t>(blocks_.size()),
         static_cast<uint32_t>(insns_.size()), slots_.size(), insns_.back().next());
  }
  for (const TakenSide& side : taken_sides_) {
    out_.links.push_back({side.op, out_.ops.size()});
    exit(RunExit::taken, side.blocks, side.insns, side.slots, side.target);
  }
  return std::move(out_);
}

// For each instruction: somebody reads the flags that it writes.
std::vector<bool> Lowering::live_flags() const {
  std::vector<bool> live(insns_.size(), true);
  uint8_t wanted = kAllFlags;
  for (size_t i = insns_.size(); i-- > 0;) {
    const Insn& insn = insns_[i];
    if (insn.is_terminator()) wanted = kAllFlags;
    // What it writes for certain; of others, what they may write is not known.
    live[i] = exact_flags_ || insn.flags_written == 0 || (insn.flags_written & wanted) != 0;
    wanted = static_cast<uint8_t>((wanted & ~insn.flags_written) | insn.flags_read);
  }
  return live;
}

Op& Lowering::add(Handler handler) {
  Op& op = out_.ops.emplace_back();
  op.handler = handler;
  op.use = {0, 0, kZeroSlot, kZeroSlot, 0, 0, index_};
  op.immediate = 0;
  return op;
}

// A part of an address that has a base, an index and a segment, or 32 bits, is computed before.
void Lowering::prepare_address(const Operation& o) {
  const bool full = o.segment != Segment::none && o.base < 16 && o.index < 16;
  if (!o.has_memory || (!full && !o.address32)) return;
  Op& op = add(kAddress);
  op.use.base = slot_of(o.base);
  op.use.index = slot_of(o.index);
  op.use.scale = o.scale_shift;
  op.displacement = o.displacement;
  op.use.src = static_cast<uint8_t>(8 * slot_of(o.segment));
  op.use.extra = o.address32;
}

void Lowering::address(Op& op, const Operation& o) {
  if (!o.has_memory) return;
  const bool full = o.segment != Segment::none && o.base < 16 && o.index < 16;
  if (full || o.address32) {
    op.use.base = kScratchSlot;
    return;
  }
  op.displacement = o.displacement;
  op.use.base = slot_of(o.base);
  op.use.index = slot_of(o.index);
  op.use.scale = o.scale_shift;
  if (o.segment == Segment::none) return;
  if (o.base < 16) {  // there is no index
    op.use.index = slot_of(o.segment);
    op.use.scale = 0;
  } else {
    op.use.base = slot_of(o.segment);
  }
}

void Lowering::capture(SlotKind kind, Gpr reg) {
  Op& op = add(kCapture);
  op.use.src = offset_of(reg);
  op.displacement = static_cast<int64_t>(4 + 8 * slots_.size());
  slots_.push_back({kind, reg, index_});
  captured_.capture(reg);
}

void Lowering::capture_addresses(const Insn& insn) {
  for (uint8_t i = 0; i < insn.access_count; i++) {
    const decoder::MemoryAccess& a = insn.accesses[i];
    if (a.base < 16 && !captured_.tells(a.base)) capture(SlotKind::base, a.base);
    if (a.index < 16 && !captured_.tells(a.index)) capture(SlotKind::index, a.index);
  }
}

// What the translator captures of a compare (translator.cc). Memory is read by an op of its own: a
// miss then repeats that one.
void Lowering::capture_compared(const Insn& insn) {
  for (const decoder::ComparedOperand& side : insn.compared) {
    if (side.kind == decoder::ComparedOperand::Kind::reg && !captured_.holds(side.reg))
      capture(SlotKind::compared, side.reg);
    if (side.kind != decoder::ComparedOperand::Kind::memory) continue;
    capture_memory(insn, insn.compared_bits);
  }
}

void Lowering::capture_divisor(const Insn& insn) {
  const auto divisor = decoder::divisor_of(insn);
  if (!divisor) return;
  if (divisor->in_memory) return capture_memory(insn, divisor->bits);
  if (!captured_.holds(divisor->reg)) capture(SlotKind::compared, divisor->reg);
}

void Lowering::capture_stored(const Insn& insn) {
  if (insn.stored.how == decoder::StoredOperand::How::none) return;
  if (insn.stored.reg < 16 && !captured_.holds(insn.stored.reg))
    capture(SlotKind::compared, insn.stored.reg);
  capture_memory(insn, insn.stored.bits);
}

void Lowering::capture_memory(const Insn& insn, uint8_t bits) {
  const Operation operation = normalised(decoder::decode_operation(insn));
  prepare_address(operation);
  Op& op = add_with_address(capture_memory_handler(bits), operation);
  op.immediate = static_cast<int64_t>(4 + 8 * slots_.size());
  slots_.push_back({SlotKind::memory, 0, index_});
}

// As the translator does (translator_records.cc).
void Lowering::capture_wished(const Insn& insn) {
  size_t block = blocks_.size() - 1;
  while (blocks_[block].first_insn > index_) block--;
  wish_ = plan_.wishes->wish(block_ids_[block], insn, index_ == blocks_[block].first_insn);
  if (wish_.addresses) capture_addresses(insn);
  for (Gpr reg = 0; reg < 16; reg++)
    if ((wish_.registers & decoder::gpr_bit(reg)) != 0 && !captured_.tells(reg))
      capture(SlotKind::base, reg);
}

void Lowering::capture_results(const Insn& insn) {
  if (insn.result < 16) capture(SlotKind::value, insn.result);
  if (insn.second_result < 16 && insn.second_result != insn.result)
    capture(SlotKind::value, insn.second_result);
  const auto kind = element_slot(insn);
  if (!kind) return;
  const uint8_t reg = insn.element_result.reg;
  Op& op = add(*kind == SlotKind::mask ? capture_mask_handler(reg) : capture_vector_handler(reg));
  op.displacement = static_cast<int64_t>(4 + 8 * slots_.size());
  slots_.push_back({*kind, reg, index_});
}

void Lowering::lower_insn(uint32_t index, bool flags_live) {
  const Insn& insn = insns_[index];
  index_ = static_cast<uint16_t>(index);
  if (plan_.addresses) capture_addresses(insn);
  if (plan_.wishes != nullptr) capture_wished(insn);
  switch (insn.kind) {
    case InsnKind::ordinary:
      if (plan_.values && insn.compared_bits != 0) capture_compared(insn);
      if (plan_.values || wish_.divisor) capture_divisor(insn);
      if (plan_.stored) capture_stored(insn);
      lower_ordinary(insn, flags_live);
      captured_.pass(insn);
      if (plan_.values || wish_.results) capture_results(insn);
      break;
    case InsnKind::native:
      refuse("an instruction for the kernel alone");
      break;
    case InsnKind::unsupported:
      refuse(insn.unsupported_reason);
      break;
    default:
      lower_branch(insn, index);
      break;
  }
}

void Lowering::refuse(const char* reason) {
  add(kUnsupported);
  out_.unsupported_reason = reason;
}

void Lowering::lower_ordinary(const Insn& insn, bool flags_live) {
  const Operation operation = normalised(decoder::decode_operation(insn));
  if (operation.code == Code::unsupported) return refuse(operation.unsupported_reason);
  const size_t before = out_.ops.size();
  prepare_address(operation);
  if (operation.code != Code::cell) {
    if (lower_one_of_a_kind(operation) || lower_named(operation, flags_live)) return;
  }
  out_.ops.resize(before);
  lower_cell(insn);
}

bool Lowering::lower_named(const Operation& o, bool flags_live) {
  const Handler handler = handler_for(o, flags_live);
  if (!handler) return false;
  Op& op = add_with_address(handler, o);
  if (o.operands[0].kind == Kind::reg) op.use.dst = offset_of(o.operands[0]);
  if (o.operands[1].kind == Kind::reg) op.use.src = offset_of(o.operands[1]);
  op.immediate = o.immediate;
  if (keeps_overflow(o)) op.use.extra = 1;
  return true;
}

Op& Lowering::add_with_address(Handler handler, const Operation& operation) {
  Op& op = add(handler);
  address(op, operation);
  return op;
}

bool Lowering::lower_one_of_a_kind(const Operation& o) {
  const bool wide = o.bits == 64;
  switch (o.code) {
    case Code::nop:
      add(kNop);
      return true;
    case Code::lea: {
      Operation flat = o;
      flat.segment = Segment::none;
      const Handler handler = wide ? kLea64 : o.bits == 32 ? kLea32 : kLea16;
      add_with_address(handler, flat).use.dst = offset_of(o.operands[0]);
      return true;
    }
    case Code::cqo:
      add(wide ? kCqo : o.bits == 32 ? kCdq : kCwd);
      return true;
    case Code::xlat: {
      Op& op = add(kXlat);
      op.use.base = decoder::kRbx;
      op.use.index = slot_of(o.segment);
      return true;
    }
    case Code::movs:
    case Code::stos:
    case Code::lods:
    case Code::scas:
    case Code::cmps:
      add(string_handler(o.code, o.bits, o.repeat)).use.src =
          static_cast<uint8_t>(8 * slot_of(o.segment));
      return true;
    default:
      return lower_stack(o) || lower_state(o);
  }
}

bool Lowering::lower_stack(const Operation& o) {
  const Operand& first = o.operands[0];
  switch (o.code) {
    case Code::push:
      if (first.kind == Kind::reg) {
        add(kPushReg).use.src = offset_of(first);
      } else if (first.kind == Kind::immediate) {
        add(kPushImm).immediate = o.immediate;
      } else {
        add_with_address(kPushMem, o);
      }
      return true;
    case Code::pop:
      // The address is computed after the pop: no part of it may have been computed before.
      if (o.has_memory && out_.ops.size() != 0 && out_.ops.back().handler == kAddress) return false;
      if (first.kind == Kind::reg) {
        add(kPopReg).use.dst = offset_of(first);
      } else {
        add_with_address(kPopMem, o);
      }
      return true;
    case Code::leave:
      add(kLeave);
      return true;
    case Code::pushf:
      add(kPushf);
      return true;
    case Code::popf:
      add(kPopf);
      return true;
    default:
      return false;
  }
}

// The direction flag and the bases of segments.
bool Lowering::lower_state(const Operation& o) {
  const Operand& first = o.operands[0];
  const auto base = static_cast<uint8_t>(8 * slot_of(o.segment));
  switch (o.code) {
    case Code::cld:
    case Code::std_:
      add(kSetDirection).use.extra = o.code == Code::std_;
      return true;
    case Code::read_base: {
      Op& op = add(first.bits == 64 ? kReadBase64 : kReadBase32);
      op.use.dst = offset_of(first);
      op.use.src = base;
      return true;
    }
    case Code::write_base: {
      Op& op = add(first.bits == 64 ? kWriteBase64 : kWriteBase32);
      op.use.dst = base;
      op.use.src = offset_of(first);
      return true;
    }
    default:
      return false;
  }
}

void Lowering::lower_cell(const Insn& insn) {
  const Operation o = decoder::describe_as_cell(insn);
  if (o.code == Code::unsupported) return refuse(o.unsupported_reason);
  const Cell* cell = cells_.cell_for(insn, o);
  if (!cell) return refuse("there is no room for more native cells");
  prepare_address(o);
  add_with_address(kCell, o).cell = cell;
}

uint32_t Lowering::blocks_until(uint32_t insns) const {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const PlannedBlock& b) { return b.end_insn == insns; });
  return static_cast<uint32_t>(block - blocks_.begin() + 1);
}

void Lowering::lower_branch(const Insn& insn, uint32_t index) {
  const uint32_t insns = index + 1;
  const uint32_t blocks = blocks_until(insns);
  const auto to_target = [&](RunExit how) {
    exit(how, blocks, insns, slots_.size(), insn.branch_target);
  };
  switch (insn.kind) {
    case InsnKind::conditional:
    case InsnKind::counter_branch: {
      taken_sides_.push_back({out_.ops.size(), blocks, insns, slots_.size(), insn.branch_target});
      if (insn.kind == InsnKind::conditional) {
        add(branch_handler(insn.condition));
      } else {
        Op& op = add(kCounterBranch);
        op.use.extra = insn.bytes[insn.length - 2u] & 3;
        const auto prefixes = std::span(insn.bytes).first(insn.length - 2u);
        op.use.dst = std::ranges::find(prefixes, 0x67) != prefixes.end() ? 4 : 8;
      }
      if (insns == insns_.size())
        exit(RunExit::not_taken, blocks, insns, slots_.size(), insn.next());
      return;
    }
    case InsnKind::call:
      add(kPushReturn).immediate = static_cast<int64_t>(insn.next().value);
      captured_.pass(insn);
      return to_target(RunExit::call);
    case InsnKind::transaction:
      add(kZeroEax);
      [[fallthrough]];
    case InsnKind::jump:
      return to_target(RunExit::jump);
    case InsnKind::syscall: {
      const RunId run = make_run(RunExit::syscall, blocks, insns, slots_.size(), insn.next());
      Op& op = add(kExitSystemCall);
      op.leave = {run.value, table_.run(run).words, static_cast<uint16_t>(insns)};
      op.displacement = static_cast<int64_t>(insn.next().value);
      return;
    }
    default:
      return lower_indirect(insn, index);
  }
}

void Lowering::lower_indirect(const Insn& insn, uint32_t index) {
  RunExit how = RunExit::ret;
  if (insn.kind == InsnKind::ret) {
    add(kRet).displacement = insn.ret_pop_bytes;
  } else {
    const bool call = insn.kind == InsnKind::indirect_call;
    how = call ? RunExit::indirect_call : RunExit::indirect_jump;
    const Operation o = decoder::decode_operation(insn);
    prepare_address(o);
    Op& op = add(o.has_memory ? (call ? kCallMem : kTargetMem) : (call ? kCallReg : kTargetReg));
    address(op, o);
    if (!o.has_memory) op.use.src = offset_of(o.operands[0]);
    op.immediate = static_cast<int64_t>(insn.next().value);
  }
  exit(how, static_cast<uint32_t>(blocks_.size()), index + 1, slots_.size(), {});
}

void Lowering::exit(RunExit how, uint32_t blocks, uint32_t insns, size_t slots, GuestAddr target) {
  const RunId run = make_run(how, blocks, insns, slots, target);
  Op& op = add(is_indirect(how) ? kExitIndirect : kExitDirect);
  op.leave = {run.value, table_.run(run).words, static_cast<uint16_t>(insns)};
  op.displacement = static_cast<int64_t>(target.value);
  op.link = nullptr;
}

RunId Lowering::make_run(RunExit how, uint32_t blocks, uint32_t insns, size_t slots,
                         GuestAddr target) {
  trace::Run run;
  run.insns = insns;
  run.exit = how;
  run.target = target;
  run.captures = plan_.captures();
  run.last_block_insns = static_cast<uint16_t>(insns - blocks_[blocks - 1].first_insn);
  const auto add_it = [&] {
    return table_.add_run(run, std::span(block_ids_).first(blocks), std::span(slots_).first(slots));
  };
  const RunId id = add_it();
  return id == kAnySite && is_indirect(how) ? add_it() : id;
}

}  // namespace shadowprof::emu
