// SPDX-License-Identifier: MIT
//
// The operands are read by the opcode's form first; then each fact is noted by the operation.
#include "decoder/plain_insn.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "decoder/plain_opcodes.h"

namespace shadowprof::decoder {
namespace {

using plain::Form;
using plain::Width;

struct PlainOperand {
  enum class Kind : uint8_t { none, reg, memory, immediate } kind = Kind::none;
  Gpr reg = kNoGpr;
  uint8_t bits = 0;
  uint8_t shift = 0;  // 8 for ah, ch, dh, bh
  // Where the instruction names it, if it is a register; kImplied: it does not.
  uint8_t field_byte = 0;
  uint8_t field_shift = 0;
  int64_t immediate = 0;

  bool is_register() const { return kind == Kind::reg; }
  bool is_memory() const { return kind == Kind::memory; }
  bool is_immediate() const { return kind == Kind::immediate; }
  bool is_whole() const { return is_register() && bits == 64; }
};
constexpr uint8_t kImplied = 0xff;

class PlainDecoder {
 public:
  // All kMaxInsnBytes bytes may be read.
  PlainDecoder(const uint8_t* bytes, Insn& insn) : bytes_(bytes), insn_(insn) {}

  bool decode() {
    if (!read_opcode()) return false;
    if (modrm_at_ != 0 && !names_register()) read_memory_operand();
    if (plain_.code == Code::nop) return note_nop();
    read_operands();
    insn_.length = at_;
    note_operands();
    note_stack();
    note_kind();
    note_results();
    note_load();
    return true;
  }

  bool describe(Operation& out) {
    if (!read_opcode() || plain_.code == Code::nop || plain_.code == Code::cell) return false;
    if (modrm_at_ != 0 && !names_register()) read_memory_operand();
    read_operands();
    insn_.length = at_;
    out.code = plain_.code;
    out.bits = bits_;
    out.variant = opcode_ & 0xf;
    out.operands = {described(first_), described(second_), described(third_)};
    out.immediate = (third_.is_immediate() ? third_ : second_).immediate;
    if (modrm_at_ != 0 && !names_register()) describe_memory(out);
    return true;
  }

 private:
  bool read_opcode();
  void read_memory_operand();
  void read_operands();

  bool note_nop();
  void note_operands();
  void note_operand(const PlainOperand& operand, bool reads, bool writes);
  void note_memory(uint8_t bits, bool reads, bool writes);
  void note_stack();
  void note_kind();
  void note_results();
  void note_compared();
  void note_stored();
  RegisterSum sum() const;

  static Operand described(const PlainOperand& operand);
  void describe_memory(Operation& out) const;
  void note_load();

  uint8_t modrm() const { return bytes_[modrm_at_]; }
  bool names_register() const { return modrm() >= 0xc0; }
  bool is_wide() const { return (rex_ & 8) != 0; }
  bool is_shift() const { return plain_.code >= Code::shl && plain_.code <= Code::ror; }
  Gpr extended(unsigned low, uint8_t rex_bit) const {
    return static_cast<Gpr>((low & 7) | ((rex_ & rex_bit) != 0 ? 8 : 0));
  }
  PlainOperand register_operand(unsigned low, uint8_t rex_bit, uint8_t bits, uint8_t byte,
                                uint8_t shift) const {
    PlainOperand operand{PlainOperand::Kind::reg, extended(low, rex_bit), bits, 0, byte, shift, 0};
    if (bits == 8 && rex_ == 0 && operand.reg >= 4) {
      operand.reg = operand.reg & 3;
      operand.shift = 8;
    }
    return operand;
  }
  PlainOperand rm_operand(uint8_t bits) const {
    if (names_register()) return register_operand(modrm(), 1, bits, modrm_at_, 0);
    return {.kind = PlainOperand::Kind::memory, .bits = bits};
  }
  PlainOperand reg_operand() const {
    return register_operand(modrm() >> 3, 4, bits_, modrm_at_, 3);
  }
  PlainOperand opcode_operand() const {
    return register_operand(opcode_, 1, bits_, static_cast<uint8_t>(at_ - 1), 0);
  }
  PlainOperand implied_register(Gpr reg, uint8_t bits) const {
    return {PlainOperand::Kind::reg, reg, bits, 0, kImplied, 0, 0};
  }

  int64_t read_number(size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes_ + at_, size);
    at_ = static_cast<uint8_t>(at_ + size);
    const auto unused = static_cast<unsigned>(64 - 8 * size);
    return static_cast<int64_t>(value << unused) >> unused;
  }
  PlainOperand immediate_operand(size_t size) {
    insn_.immediate_bytes = static_cast<uint8_t>(size);
    const auto bits = static_cast<uint8_t>(8 * size);
    return {.kind = PlainOperand::Kind::immediate, .bits = bits, .immediate = read_number(size)};
  }
  size_t immediate_size() const { return bits_ == 8 ? 1 : 4; }

  const uint8_t* const bytes_;
  Insn& insn_;
  uint8_t at_ = 0;
  uint8_t rex_ = 0;
  uint8_t opcode_ = 0;
  uint8_t modrm_at_ = 0;  // 0: there is none
  uint8_t sib_at_ = 0;    // 0: there is none
  uint8_t displacement_at_ = 0;
  uint8_t bits_ = 0;  // of the operation
  plain::Opcode plain_;
  plain::Effect effect_;
  MemoryAccess memory_;
  PlainOperand first_, second_, third_;
};

bool PlainDecoder::read_opcode() {
  if ((bytes_[0] & 0xf0) == 0x40) {
    rex_ = bytes_[at_++];
    insn_.rex_offset = 0;
  }
  const bool is_escaped = bytes_[at_] == 0x0f;
  if (is_escaped) at_++;
  opcode_ = bytes_[at_++];
  insn_.condition = opcode_ & 0xf;
  plain_ = plain::opcode_of(is_escaped, opcode_);
  if (plain_.form == Form::none) return false;
  if (plain::has_modrm(plain_.form)) {
    modrm_at_ = at_++;
    insn_.opcode_offset = static_cast<uint8_t>(modrm_at_ - 1);
    if (plain_.form == Form::group)
      plain_ = plain::opcode_in_group(opcode_, modrm() >> 3 & 7, plain_.width);
    if (plain_.code == Code::lea && names_register()) return false;
  }
  effect_ = plain::effect_of(plain_);
  bits_ = plain_.width == Width::stack || is_wide() ? 64 : 32;
  if (plain_.width == Width::byte) bits_ = 8;
  return plain_.form != Form::none && (is_wide() || !plain_.needs_wide);
}

void PlainDecoder::read_memory_operand() {
  const unsigned mod = modrm() >> 6, rm = modrm() & 7;
  unsigned base = rm;
  if (rm == 4) {
    sib_at_ = at_++;
    const unsigned sib = bytes_[sib_at_];
    base = sib & 7;
    const Gpr index = extended(sib >> 3, 2);
    if (index != kRsp) {
      memory_.index = index;
      memory_.scale = static_cast<uint8_t>(1u << (sib >> 6));
    }
  }
  displacement_at_ = at_;
  if (mod == 0 && base == 5) {
    memory_.base = sib_at_ != 0 ? kNoGpr : kRip;
    memory_.displacement = read_number(4);
  } else {
    memory_.base = extended(base, 1);
    if (mod != 0) memory_.displacement = read_number(mod == 1 ? 1 : 4);
  }
}

void PlainDecoder::read_operands() {
  switch (plain_.form) {
    case Form::rm_reg:
      first_ = rm_operand(bits_);
      second_ = reg_operand();
      break;
    case Form::reg_rm:
    case Form::reg_rm_immediate:
      first_ = reg_operand();
      second_ = rm_operand(plain_.source_bits != 0 ? plain_.source_bits : bits_);
      if (plain_.code == Code::lea) second_.bits = 64;  // an address
      if (plain_.form == Form::reg_rm_immediate)
        third_ = immediate_operand(opcode_ == 0x6b ? 1 : 4);
      break;
    case Form::rm_immediate:
    case Form::rm_byte:
      first_ = rm_operand(bits_);
      second_ = immediate_operand(plain_.form == Form::rm_byte ? 1 : immediate_size());
      if (is_shift()) second_.immediate &= 0xff;
      break;
    case Form::rm_one:
      first_ = rm_operand(bits_);
      second_ = {.kind = PlainOperand::Kind::immediate, .bits = 8, .immediate = 1};
      break;
    case Form::rm_cl:
      first_ = rm_operand(bits_);
      second_ = implied_register(kRcx, 8);
      break;
    case Form::rm:
      first_ = rm_operand(bits_);
      break;
    case Form::accumulator_immediate:
      first_ = implied_register(kRax, bits_);
      second_ = immediate_operand(immediate_size());
      break;
    case Form::opcode_register:
      first_ = opcode_operand();
      break;
    case Form::opcode_register_immediate:
      first_ = opcode_operand();
      second_ = immediate_operand(is_wide() && bits_ != 8 ? 8 : immediate_size());
      break;
    case Form::target_byte:
      second_ = immediate_operand(1);
      break;
    case Form::target:
      second_ = immediate_operand(4);
      break;
    case Form::none:
    case Form::group:
    case Form::bare:
      break;
  }
}

// Nothing that its operand names counts.
bool PlainDecoder::note_nop() {
  insn_.length = at_;
  insn_.may_fault = false;
  if (plain_.form == Form::bare) return rex_ == 0;  // with it, it may be an exchange
  return (modrm() >> 3 & 7) == 0;
}

void PlainDecoder::note_operands() {
  note_operand(first_, effect_.reads_first, effect_.writes_first);
  if (second_.is_immediate()) return;
  note_operand(second_, true, false);
}

void PlainDecoder::note_operand(const PlainOperand& operand, bool reads, bool writes) {
  if (operand.is_memory()) return note_memory(operand.bits, reads, writes);
  if (!operand.is_register()) return;
  if (reads) insn_.reads |= gpr_bit(operand.reg);
  if (writes) {
    insn_.writes |= gpr_bit(operand.reg);
    insn_.result = operand.reg;
    insn_.whole_result = operand.bits >= 32;
    insn_.result_bits = operand.bits;
    insn_.result_shift = operand.shift;
  }
  if (operand.reg == kR15 && operand.field_byte != kImplied)
    insn_.r15_fields[insn_.r15_field_count++] = {operand.field_byte, operand.field_shift, false};
}

void PlainDecoder::note_memory(uint8_t bits, bool reads, bool writes) {
  if (memory_.base < 16) insn_.reads |= gpr_bit(memory_.base);
  if (memory_.index < 16) insn_.reads |= gpr_bit(memory_.index);
  if (memory_.base == kR15)
    insn_.r15_fields[insn_.r15_field_count++] = {sib_at_ != 0 ? sib_at_ : modrm_at_, 0, false};
  if (memory_.index == kR15) insn_.r15_fields[insn_.r15_field_count++] = {sib_at_, 3, false};
  if (memory_.base == kRip) {
    insn_.rip_relative = true;
    insn_.modrm_offset = modrm_at_;
    insn_.displacement_offset = displacement_at_;
    insn_.rip_target = insn_.next() + static_cast<uint64_t>(memory_.displacement);
    insn_.base_bit = (rex_ & 1) != 0;
  }
  if (plain_.code == Code::lea) return;
  memory_.size = bits / 8;
  memory_.read = reads;
  memory_.write = writes;
  insn_.writes_memory = writes;
  insn_.accesses[insn_.access_count++] = memory_;
}

// What is pushed or popped, behind an operand in memory.
void PlainDecoder::note_stack() {
  const bool pushes = plain_.code == Code::push || plain_.kind == InsnKind::call ||
                      plain_.kind == InsnKind::indirect_call;
  if (!pushes && plain_.code != Code::pop && plain_.kind != InsnKind::ret) return;
  insn_.reads |= gpr_bit(kRsp);
  insn_.writes |= gpr_bit(kRsp);
  MemoryAccess& access = insn_.accesses[insn_.access_count++];
  access.base = kRsp;
  access.size = 8;
  access.displacement = pushes ? -8 : 0;
  (pushes ? access.write : access.read) = true;
  access.implicit = true;
}

void PlainDecoder::note_kind() {
  insn_.kind = plain_.kind;
  if (plain_.form == Form::target || plain_.form == Form::target_byte)
    insn_.branch_target = insn_.next() + static_cast<uint64_t>(second_.immediate);
  if (insn_.kind == InsnKind::ordinary) insn_.may_fault = insn_.access_count != 0;
}

void PlainDecoder::note_results() {
  insn_.flags_written = effect_.flags_written;
  const Code code = plain_.code;
  if (code == Code::adc || code == Code::sbb) insn_.flags_read = kCf;
  if (plain_.kind == InsnKind::conditional || code == Code::cmov || code == Code::setcc)
    insn_.flags_read = plain::flags_of_condition(insn_.condition);
  if (code == Code::cmp || code == Code::test) note_compared();
  note_stored();
  insn_.lea64 = plain_.code == Code::lea && bits_ == 64;
  insn_.sum = sum();
  if (!first_.is_register()) return;
  const bool same =
      second_.is_register() && first_.reg == second_.reg && first_.shift == second_.shift;
  insn_.constant_result = (plain_.code == Code::mov && second_.is_immediate()) ||
                          (plain_.code == Code::lea && insn_.reads == 0) ||
                          ((plain_.code == Code::xor_ || plain_.code == Code::sub) && same);
}

void PlainDecoder::note_compared() {
  insn_.compares_common_bits = plain_.code == Code::test;
  insn_.compared_bits = bits_;
  const std::array sides = {&first_, &second_};
  for (size_t i = 0; i < sides.size(); i++) {
    ComparedOperand& to = insn_.compared[i];
    if (sides[i]->is_register())
      to = {ComparedOperand::Kind::reg, sides[i]->reg, sides[i]->shift, 0};
    else if (sides[i]->is_memory())
      to.kind = ComparedOperand::Kind::memory;
    else
      to.immediate = sides[i]->immediate;
  }
}

void PlainDecoder::note_stored() {
  if (effect_.stores == StoredOperand::How::none || !first_.is_memory()) return;
  insn_.stored = {effect_.stores, second_.reg, bits_, second_.shift, second_.immediate};
}

RegisterSum PlainDecoder::sum() const {
  if (plain_.code == Code::push || plain_.kind == InsnKind::call) return {kRsp, kRsp, -8};
  if (plain_.code == Code::pop && first_.reg != kRsp) return {kRsp, kRsp, 8};
  if (plain_.code == Code::pop) return {};
  if (!first_.is_whole()) return {};
  const auto added = [&](int64_t constant) {
    return RegisterSum{first_.reg, first_.reg, constant};
  };
  switch (plain_.code) {
    case Code::inc:
      return added(1);
    case Code::dec:
      return added(-1);
    case Code::add:
      return second_.is_immediate() ? added(second_.immediate) : RegisterSum{};
    case Code::sub:
      return second_.is_immediate() ? added(-second_.immediate) : RegisterSum{};
    case Code::mov:
      return second_.is_whole() ? RegisterSum{first_.reg, second_.reg, 0} : RegisterSum{};
    case Code::lea:
      return memory_.index == kNoGpr && memory_.base < 16
                 ? RegisterSum{first_.reg, memory_.base, memory_.displacement}
                 : RegisterSum{};
    default:
      return {};
  }
}

void PlainDecoder::note_load() {
  if (insn_.access_count == 0 || !insn_.accesses[0].read) return;
  const Code code = plain_.code;
  insn_.pure_load = code == Code::mov || code == Code::movzx || code == Code::movsx;
  if (insn_.pure_load)
    insn_.load = LoadKind::move;
  else if (code == Code::pop || plain_.kind == InsnKind::ret)
    insn_.load = LoadKind::stack;
  else
    insn_.load = code == Code::target ? LoadKind::branch : LoadKind::operand;
}

Operand PlainDecoder::described(const PlainOperand& operand) {
  using From = PlainOperand::Kind;
  using To = Operand::Kind;
  if (operand.kind == From::none) return {};
  const To kind = operand.kind == From::reg      ? To::reg
                  : operand.kind == From::memory ? To::memory
                                                 : To::immediate;
  return {kind, operand.reg, operand.shift != 0, operand.bits};
}

void PlainDecoder::describe_memory(Operation& out) const {
  const bool is_relative = memory_.base == kRip;
  const bool is_first = first_.is_memory();
  out.has_memory = true;
  out.base = is_relative ? kNoGpr : memory_.base;
  out.index = memory_.index;
  out.scale_shift = static_cast<uint8_t>(std::countr_zero(std::max<unsigned>(1, memory_.scale)));
  out.displacement = memory_.displacement;
  if (is_relative) out.displacement += static_cast<int64_t>(insn_.next().value);
  out.memory_bytes = (is_first ? first_ : second_).bits / 8;
  if (plain_.code == Code::lea) return;
  out.reads_memory = !is_first || effect_.reads_first;
  out.writes_memory = is_first && effect_.writes_first;
}

constexpr std::array<uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};

bool is_endbr64(const uint8_t* bytes) {
  return std::equal(kEndbr64.begin(), kEndbr64.end(), bytes);
}

void note_endbr64(Insn& insn) {
  insn.length = kEndbr64.size();
  insn.opcode_offset = 2;
  insn.condition = 0xe;
  insn.may_fault = false;
}

}  // namespace

bool plain_operation(const Insn& insn, Operation& out) {
  Insn again;
  again.address = insn.address;
  // The array has all bytes that may be read.
  return PlainDecoder(insn.bytes.data(), again).describe(out) && again.length == insn.length;
}

bool decode_plain(std::span<const uint8_t> bytes, GuestAddr address, Insn& insn) {
  std::array<uint8_t, kMaxInsnBytes> padded{};
  const uint8_t* all = bytes.data();
  if (bytes.size() < padded.size()) {
    std::copy(bytes.begin(), bytes.end(), padded.begin());
    all = padded.data();
  }
  insn.address = address;
  if (is_endbr64(all))
    note_endbr64(insn);
  else if (!PlainDecoder(all, insn).decode())
    return false;
  if (insn.length > bytes.size()) return false;
  std::copy_n(all, insn.length, insn.bytes.begin());
  return true;
}

}  // namespace shadowprof::decoder
