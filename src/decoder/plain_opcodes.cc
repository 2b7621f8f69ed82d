// SPDX-License-Identifier: MIT
#include "decoder/plain_opcodes.h"

#include <array>

namespace shadowprof::decoder::plain {
namespace {

constexpr std::array kArithmetic = {Op::add,  Op::or_, Op::adc,  Op::sbb,
                                    Op::and_, Op::sub, Op::xor_, Op::cmp};

constexpr std::array<Opcode, 256> one_byte_opcodes() {
  std::array<Opcode, 256> map{};
  const auto pair = [&](size_t opcode, Op op, Form form) {  // of bytes, and of more
    map[opcode] = {op, form, Width::byte};
    map[opcode + 1] = {op, form};
  };
  for (size_t i = 0; i < kArithmetic.size(); i++) {
    pair(8 * i, kArithmetic[i], Form::rm_reg);
    pair(8 * i + 2, kArithmetic[i], Form::reg_rm);
    pair(8 * i + 4, kArithmetic[i], Form::accumulator_immediate);
  }
  for (size_t r = 0; r < 8; r++) {
    map[0x50 + r] = {Op::push, Form::opcode_register, Width::stack};
    map[0x58 + r] = {Op::pop, Form::opcode_register, Width::stack};
    map[0xb0 + r] = {Op::mov, Form::opcode_register_immediate, Width::byte};
    map[0xb8 + r] = {Op::mov, Form::opcode_register_immediate};
  }
  for (size_t condition = 0; condition < 16; condition++)
    map[0x70 + condition] = {Op::jcc, Form::target_byte};
  map[0x63] = {Op::extend, Form::reg_rm, Width::full, 32, true};
  map[0x69] = map[0x6b] = {Op::multiply, Form::reg_rm_immediate};
  map[0x80] = {Op::none, Form::group, Width::byte};
  map[0x81] = map[0x83] = {Op::none, Form::group};
  pair(0x84, Op::test, Form::rm_reg);
  pair(0x88, Op::mov, Form::rm_reg);
  pair(0x8a, Op::mov, Form::reg_rm);
  map[0x8d] = {Op::lea, Form::reg_rm};
  map[0x90] = {Op::nop, Form::bare};
  pair(0xa8, Op::test, Form::accumulator_immediate);
  pair(0xc0, Op::none, Form::group);
  map[0xc3] = {Op::ret, Form::bare};
  pair(0xc6, Op::none, Form::group);
  pair(0xd0, Op::none, Form::group);
  pair(0xd2, Op::none, Form::group);
  map[0xe8] = {Op::call, Form::target};
  map[0xe9] = {Op::jump, Form::target};
  map[0xeb] = {Op::jump, Form::target_byte};
  pair(0xf6, Op::none, Form::group);
  pair(0xfe, Op::none, Form::group);
  return map;
}

constexpr std::array<Opcode, 256> two_byte_opcodes() {  // behind 0f
  std::array<Opcode, 256> map{};
  map[0x1f] = {Op::nop, Form::rm};
  for (size_t condition = 0; condition < 16; condition++) {
    map[0x40 + condition] = {Op::cmov, Form::reg_rm};
    map[0x80 + condition] = {Op::jcc, Form::target};
    map[0x90 + condition] = {Op::setcc, Form::rm, Width::byte};
  }
  map[0xaf] = {Op::imul, Form::reg_rm};
  map[0xb6] = map[0xbe] = {Op::extend, Form::reg_rm, Width::full, 8};
  map[0xb7] = map[0xbf] = {Op::extend, Form::reg_rm, Width::full, 16};
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
      return reg == 0 ? Opcode{Op::mov, Form::rm_immediate, width} : Opcode();
    case 0xf6:
    case 0xf7:
      switch (reg) {
        case 0:
          return {Op::test, Form::rm_immediate, width};
        case 2:
          return {Op::not_, Form::rm, width};
        case 3:
          return {Op::neg, Form::rm, width};
        default:
          return {};
      }
    case 0xfe:
    case 0xff:
      if (reg < 2) return {reg == 0 ? Op::inc : Op::dec, Form::rm, width};
      if (opcode == 0xff && (reg == 2 || reg == 4))
        return {reg == 2 ? Op::call_to : Op::jump_to, Form::rm, Width::stack};
      return {};
    default: {  // shifts and rotations, but for those through the carry flag
      if (reg == 2 || reg == 3 || reg == 6) return {};
      const Form form = opcode < 0xd0 ? Form::rm_byte : opcode < 0xd2 ? Form::rm_one : Form::rm_cl;
      return {Op::shift, form, width};
    }
  }
}

Effect effect_of(Op op) {
  using How = StoredOperand::How;
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::xor_:
      return {true, true, kAllFlags, How::change};
    case Op::or_:
      return {true, true, kAllFlags, How::set_bits};
    case Op::and_:
      return {true, true, kAllFlags, How::clear_bits};
    case Op::adc:
    case Op::sbb:
    case Op::neg:
      return {true, true, kAllFlags};
    case Op::cmp:
    case Op::test:
      return {true, false, kAllFlags};
    case Op::mov:
      return {false, true, 0, How::move};
    case Op::inc:
    case Op::dec:
      return {true, true, kAllFlags & ~kCf};
    case Op::not_:
    case Op::shift:
    case Op::cmov:
      return {true, true};
    case Op::imul:
      return {true, true, kCf | kOf};
    case Op::push:
      return {true, false};
    case Op::jump_to:
    case Op::call_to:
      return {true, false};
    case Op::multiply:
      return {false, true, kCf | kOf};
    case Op::extend:
    case Op::lea:
    case Op::pop:
    case Op::setcc:
      return {false, true};
    default:
      return {};
  }
}

Code code_of(Op op) {
  constexpr std::array kCodes = {
      Code::cell,   Code::add,    Code::or_,  Code::adc,  Code::sbb,  Code::and_, Code::sub,
      Code::xor_,   Code::cmp,    Code::test, Code::mov,  Code::cell, Code::lea,  Code::inc,
      Code::dec,    Code::neg,    Code::not_, Code::cell, Code::imul, Code::imul, Code::cmov,
      Code::setcc,  Code::push,   Code::pop,  Code::cell, Code::cell, Code::cell, Code::cell,
      Code::target, Code::target, Code::cell};
  static_assert(kCodes.size() == static_cast<size_t>(Op::nop) + 1, "one for each, in their order");
  return kCodes[static_cast<size_t>(op)];
}

uint8_t flags_of_condition(uint8_t condition) {
  constexpr std::array<uint8_t, 8> kRead = {kOf, kCf, kZf,       kCf | kZf,
                                            kSf, kPf, kSf | kOf, kSf | kOf | kZf};
  return kRead[condition >> 1 & 7];
}

}  // namespace shadowprof::decoder::plain
