// SPDX-License-Identifier: MIT
#include "decoder/plain_opcodes.h"

#include <array>

namespace shadowprof::decoder::plain {
namespace {

constexpr std::array kArithmetic = {Code::add,  Code::or_, Code::adc,  Code::sbb,
                                    Code::and_, Code::sub, Code::xor_, Code::cmp};

constexpr Opcode branch(InsnKind kind, Form form, Width width = Width::full) {
  return {Code::cell, form, width, 0, false, kind};
}

constexpr std::array<Opcode, 256> one_byte_opcodes() {
  std::array<Opcode, 256> map{};
  const auto pair = [&](size_t opcode, Code code, Form form) {  // of bytes, and of more
    map[opcode] = {code, form, Width::byte};
    map[opcode + 1] = {code, form};
  };
  for (size_t i = 0; i < kArithmetic.size(); i++) {
    pair(8 * i, kArithmetic[i], Form::rm_reg);
    pair(8 * i + 2, kArithmetic[i], Form::reg_rm);
    pair(8 * i + 4, kArithmetic[i], Form::accumulator_immediate);
  }
  for (size_t r = 0; r < 8; r++) {
    map[0x50 + r] = {Code::push, Form::opcode_register, Width::stack};
    map[0x58 + r] = {Code::pop, Form::opcode_register, Width::stack};
    map[0xb0 + r] = {Code::mov, Form::opcode_register_immediate, Width::byte};
    map[0xb8 + r] = {Code::mov, Form::opcode_register_immediate};
  }
  for (size_t condition = 0; condition < 16; condition++)
    map[0x70 + condition] = branch(InsnKind::conditional, Form::target_byte);
  map[0x63] = {Code::movsx, Form::reg_rm, Width::full, 32, true};
  map[0x69] = map[0x6b] = {Code::imul, Form::reg_rm_immediate};
  map[0x80] = {Code::cell, Form::group, Width::byte};
  map[0x81] = map[0x83] = {Code::cell, Form::group};
  pair(0x84, Code::test, Form::rm_reg);
  pair(0x88, Code::mov, Form::rm_reg);
  pair(0x8a, Code::mov, Form::reg_rm);
  map[0x8d] = {Code::lea, Form::reg_rm};
  map[0x90] = {Code::nop, Form::bare};
  pair(0xa8, Code::test, Form::accumulator_immediate);
  pair(0xc0, Code::cell, Form::group);
  map[0xc3] = branch(InsnKind::ret, Form::bare);
  pair(0xc6, Code::cell, Form::group);
  pair(0xd0, Code::cell, Form::group);
  pair(0xd2, Code::cell, Form::group);
  map[0xe8] = branch(InsnKind::call, Form::target);
  map[0xe9] = branch(InsnKind::jump, Form::target);
  map[0xeb] = branch(InsnKind::jump, Form::target_byte);
  pair(0xf6, Code::cell, Form::group);
  pair(0xfe, Code::cell, Form::group);
  return map;
}

constexpr std::array<Opcode, 256> two_byte_opcodes() {  // behind 0f
  std::array<Opcode, 256> map{};
  map[0x1f] = {Code::nop, Form::rm};
  for (size_t condition = 0; condition < 16; condition++) {
    map[0x40 + condition] = {Code::cmov, Form::reg_rm};
    map[0x80 + condition] = branch(InsnKind::conditional, Form::target);
    map[0x90 + condition] = {Code::setcc, Form::rm, Width::byte};
  }
  map[0xaf] = {Code::imul, Form::reg_rm};
  map[0xb6] = {Code::movzx, Form::reg_rm, Width::full, 8};
  map[0xb7] = {Code::movzx, Form::reg_rm, Width::full, 16};
  map[0xbe] = {Code::movsx, Form::reg_rm, Width::full, 8};
  map[0xbf] = {Code::movsx, Form::reg_rm, Width::full, 16};
  return map;
}

constexpr std::array<Opcode, 256> kOneByte = one_byte_opcodes();
constexpr std::array<Opcode, 256> kTwoByte = two_byte_opcodes();

constexpr uint8_t kAllFlags = kCf | kPf | kAf | kZf | kSf | kOf;

}  // namespace

bool has_modrm(Form form) {
  switch (form) {
    case Form::accumulator_immediate:
    case Form::opcode_register:
    case Form::opcode_register_immediate:
    case Form::target_byte:
    case Form::target:
    case Form::bare:
      return false;
    default:
      return true;
  }
}

Opcode opcode_of(bool escaped, uint8_t opcode) {
  return escaped ? kTwoByte[opcode] : kOneByte[opcode];
}

Opcode opcode_in_group(uint8_t opcode, uint8_t reg, Width width) {
  switch (opcode) {
    case 0x80:
    case 0x81:
      return {kArithmetic[reg], Form::rm_immediate, width};
    case 0x83:
      return {kArithmetic[reg], Form::rm_byte, width};
    case 0xc6:
    case 0xc7:
      return reg == 0 ? Opcode{Code::mov, Form::rm_immediate, width} : Opcode();
    case 0xf6:
    case 0xf7:
      switch (reg) {
        case 0:
          return {Code::test, Form::rm_immediate, width};
        case 2:
          return {Code::not_, Form::rm, width};
        case 3:
          return {Code::neg, Form::rm, width};
        default:
          return {};
      }
    case 0xfe:
    case 0xff:
      if (reg < 2) return {reg == 0 ? Code::inc : Code::dec, Form::rm, width};
      if (opcode == 0xff && (reg == 2 || reg == 4))
        return {Code::target, Form::rm,
                Width::stack, 0,
                false,        reg == 2 ? InsnKind::indirect_call : InsnKind::indirect_jump};
      return {};
    default: {  // shifts and rotations, but for those through the carry flag
      constexpr std::array kShifts = {Code::rol, Code::ror, Code::cell, Code::cell,
                                      Code::shl, Code::shr, Code::cell, Code::sar};
      if (kShifts[reg] == Code::cell) return {};
      const Form form = opcode < 0xd0 ? Form::rm_byte : opcode < 0xd2 ? Form::rm_one : Form::rm_cl;
      return {kShifts[reg], form, width};
    }
  }
}

Effect effect_of(const Opcode& opcode) {
  using How = StoredOperand::How;
  switch (opcode.code) {
    case Code::add:
    case Code::sub:
    case Code::xor_:
      return {true, true, kAllFlags, How::change};
    case Code::or_:
      return {true, true, kAllFlags, How::set_bits};
    case Code::and_:
      return {true, true, kAllFlags, How::clear_bits};
    case Code::adc:
    case Code::sbb:
    case Code::neg:
      return {true, true, kAllFlags};
    case Code::cmp:
    case Code::test:
      return {true, false, kAllFlags};
    case Code::mov:
      return {false, true, 0, How::move};
    case Code::inc:
    case Code::dec:
      return {true, true, kAllFlags & ~kCf};
    case Code::imul:
      return {opcode.form != Form::reg_rm_immediate, true, kCf | kOf};
    case Code::push:
    case Code::target:
      return {true, false};
    case Code::movzx:
    case Code::movsx:
    case Code::lea:
    case Code::pop:
    case Code::setcc:
      return {false, true};
    case Code::cell:
    case Code::nop:
      return {};
    default:  // not, cmov, shifts and rotations
      return {true, true};
  }
}

uint8_t flags_of_condition(uint8_t condition) {
  constexpr std::array<uint8_t, 8> kRead = {kOf, kCf, kZf,       kCf | kZf,
                                            kSf, kPf, kSf | kOf, kSf | kOf | kZf};
  return kRead[condition >> 1 & 7];
}

}  // namespace shadowprof::decoder::plain
