// SPDX-License-Identifier: MIT
//
// The opcodes of plain instructions (plain_insn.h), as tables: what an opcode does, where its
// operands are (Form), and what the operation does to them (Effect).
#pragma once

#include <cstdint>

#include "decoder/insn.h"
#include "decoder/operation.h"

namespace shadowprof::decoder::plain {

enum class Form : uint8_t {
  none,  // it is no plain instruction
  rm_reg,
  reg_rm,
  reg_rm_immediate,
  rm_immediate,
  rm_byte,  // an immediate of one byte
  rm_one,   // an implied 1
  rm_cl,
  rm,
  accumulator_immediate,
  opcode_register,
  opcode_register_immediate,
  target_byte,
  target,
  group,  // the operation is by modrm.reg
  bare,
};

// How wide the operands are.
enum class Width : uint8_t { byte, full, stack };

struct Opcode {
  Code code = Code::cell;  // that of direct branches, calls and returns, too
  Form form = Form::none;
  Width width = Width::full;
  uint8_t source_bits = 0;  // of what movzx and movsx extend
  bool needs_wide = false;  // only with REX.W
  InsnKind kind = InsnKind::ordinary;
};

bool has_modrm(Form form);

// `escaped`: behind 0f.
Opcode opcode_of(bool escaped, uint8_t opcode);
// The operation of an opcode that has one for each modrm.reg (Form::group), if that is a plain one.
Opcode opcode_in_group(uint8_t opcode, uint8_t reg, Width width);

// What an operation does to its first operand, and what it is in our terms.
struct Effect {
  bool reads_first = false;
  bool writes_first = false;
  uint8_t flags_written = 0;
  StoredOperand::How stores = StoredOperand::How::none;
};

Effect effect_of(const Opcode& opcode);

// That a condition depends on: the low four bits of the opcode.
uint8_t flags_of_condition(uint8_t condition);

}  // namespace shadowprof::decoder::plain
