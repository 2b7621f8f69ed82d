// SPDX-License-Identifier: MIT
#include "decoder/insn.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "decoder/element_result.h"
#include "decoder/load_kind.h"
#include "decoder/plain_insn.h"

namespace shadowprof::decoder {
namespace {

const ZydisDecoder& zydis() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return decoder;
}

// Encoding number of the 64-bit register that `reg` is a part of.
Gpr gpr_of(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_NONE) return kNoGpr;
  if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP) return kRip;
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR8:
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64: break;
    default: return kNoGpr;
  }
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  return static_cast<Gpr>(whole - ZYDIS_REGISTER_RAX);
}

GprMask mask_of(Gpr r) { return r < 16 ? gpr_bit(r) : GprMask{0}; }

struct Decoded {
  const ZydisDecodedInstruction& info;
  std::span<const ZydisDecodedOperand> operands;  // hidden ones included
};

// Adds the field behind operand encoding `e` when it holds r15.
void add_field(Insn& insn, uint8_t byte, uint8_t shift, bool inverted = false) {
  SP_CHECK(insn.r15_field_count < insn.r15_fields.size(), "more r15 fields than an encoding has");
  insn.r15_fields[insn.r15_field_count++] = {byte, shift, inverted};
}

void note_register_field(Insn& insn, const ZydisDecodedInstruction& info,
                         ZydisOperandEncoding encoding) {
  const auto& raw = info.raw;
  switch (encoding) {
    case ZYDIS_OPERAND_ENCODING_MODRM_REG: add_field(insn, raw.modrm.offset, 3); break;
    case ZYDIS_OPERAND_ENCODING_MODRM_RM: add_field(insn, raw.modrm.offset, 0); break;
    case ZYDIS_OPERAND_ENCODING_OPCODE:
      // The opcode is the last byte before the immediate: these forms have no modrm.
      add_field(insn, static_cast<uint8_t>((raw.imm[0].size ? raw.imm[0].offset : info.length) - 1),
                0);
      break;
    case ZYDIS_OPERAND_ENCODING_NDSNDD: {
      uint8_t byte = 0;
      if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
        byte = static_cast<uint8_t>(raw.vex.offset + raw.vex.size - 1);
      } else if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) {
        byte = static_cast<uint8_t>(raw.evex.offset + 2);
      } else {
        byte = static_cast<uint8_t>(raw.xop.offset + 2);
      }
      add_field(insn, byte, 3, true);
      break;
    }
    default: insn.unsupported_reason = "r15 in a field that cannot be patched"; break;
  }
}

// Whoever writes the instruction down names it, though the encoding may imply it (add eax, 5).
bool is_named(const ZydisDecodedOperand& op) {
  return op.visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN;
}

// What is written on a condition keeps what it had if that does not hold.
void note_register(Insn& insn, const ZydisDecodedInstruction& info, const ZydisDecodedOperand& op) {
  constexpr ZydisOperandActions kReads =
      ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE;
  const Gpr r = gpr_of(op.reg.value);
  if (r >= 16) return;
  if (op.actions & kReads) insn.reads |= gpr_bit(r);
  if (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) {
    insn.writes |= gpr_bit(r);
    if (insn.result == kNoGpr && is_named(op)) {
      insn.result = r;
      insn.whole_result = op.size >= 32;
      insn.result_bits = static_cast<uint8_t>(op.size);
      const bool high = op.reg.value >= ZYDIS_REGISTER_AH && op.reg.value <= ZYDIS_REGISTER_BH;
      insn.result_shift = high ? 8 : 0;
    }
  }
  if (r == kR15 && op.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT) {
    note_register_field(insn, info, op.encoding);
  }
}

// Results in registers that an instruction does not name, or names second. `result` is taken by
// then if one is named first.
bool has_implicit_results(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MUL:
    case ZYDIS_MNEMONIC_IMUL:
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
    case ZYDIS_MNEMONIC_CBW:
    case ZYDIS_MNEMONIC_CWDE:
    case ZYDIS_MNEMONIC_CDQE:
    case ZYDIS_MNEMONIC_CWD:
    case ZYDIS_MNEMONIC_CDQ:
    case ZYDIS_MNEMONIC_CQO:
    case ZYDIS_MNEMONIC_XLAT:
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ:
    case ZYDIS_MNEMONIC_CMPXCHG: return true;
    default: return false;
  }
}

void note_more_results(Insn& insn, const Decoded& d) {
  const bool implicit = has_implicit_results(d.info.mnemonic);
  const bool is_byte_division =
      d.info.operand_width == 8 &&
      (d.info.mnemonic == ZYDIS_MNEMONIC_DIV || d.info.mnemonic == ZYDIS_MNEMONIC_IDIV);
  for (const ZydisDecodedOperand& op : d.operands) {
    if (op.type != ZYDIS_OPERAND_TYPE_REGISTER ||
        !(op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
      continue;
    const Gpr r = gpr_of(op.reg.value);
    if (r >= 16 || !(is_named(op) || (implicit && (r == kRax || r == kRdx)))) continue;
    const bool high = op.reg.value >= ZYDIS_REGISTER_AH && op.reg.value <= ZYDIS_REGISTER_BH;
    const auto bits = static_cast<uint8_t>(op.size);
    if (insn.result == kNoGpr) {
      insn.result = r;
      insn.whole_result = op.size >= 32;
      insn.result_bits = bits;
      insn.result_shift = high ? 8 : 0;
      if (!is_byte_division) continue;
      insn.result_bits = 8;  // ah is the remainder
      insn.second_result = r;
      insn.second_bits = insn.second_shift = 8;
    } else if (insn.result != r && insn.second_result == kNoGpr) {
      insn.second_result = r;
      insn.second_bits = bits;
      insn.second_shift = high ? 8 : 0;
    }
  }
}

StoredOperand::How how_it_stores(ZydisMnemonic mnemonic) {
  using How = StoredOperand::How;
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
      return How::move;
    case ZYDIS_MNEMONIC_OR:
      return How::set_bits;
    case ZYDIS_MNEMONIC_AND:
      return How::clear_bits;
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_XOR:
      return How::change;
    default:
      return How::none;
  }
}

// With a modrm byte behind a one-byte opcode, so that engines can read the operand (opcode_offset).
void note_stored(Insn& insn, const Decoded& d) {
  const auto how = how_it_stores(d.info.mnemonic);
  const bool is_locked = (d.info.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0;
  if (how == StoredOperand::How::none || is_locked || d.operands.size() < 2) return;
  if (d.info.raw.modrm.offset == 0 || d.info.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT) return;
  const ZydisDecodedOperand &to = d.operands[0], &from = d.operands[1];
  if (to.type != ZYDIS_OPERAND_TYPE_MEMORY) return;
  StoredOperand stored{.how = how, .bits = static_cast<uint8_t>(to.size)};
  if (from.type == ZYDIS_OPERAND_TYPE_REGISTER) {
    stored.reg = gpr_of(from.reg.value);
    if (stored.reg >= 16) return;  // a segment
    const bool high = from.reg.value >= ZYDIS_REGISTER_AH && from.reg.value <= ZYDIS_REGISTER_BH;
    stored.shift = high ? 8 : 0;
  } else if (from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    stored.immediate = from.imm.value.s;
  } else {
    return;
  }
  insn.stored = stored;
}

void note_compare(Insn& insn, const Decoded& d) {
  const bool test = d.info.mnemonic == ZYDIS_MNEMONIC_TEST;
  if (!test && d.info.mnemonic != ZYDIS_MNEMONIC_CMP) return;
  insn.compares_common_bits = test;
  insn.compared_bits = static_cast<uint8_t>(d.operands[0].size);
  for (size_t i = 0; i < 2; i++) {
    const ZydisDecodedOperand& op = d.operands[i];
    ComparedOperand& side = insn.compared[i];
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      const bool high = op.reg.value >= ZYDIS_REGISTER_AH && op.reg.value <= ZYDIS_REGISTER_BH;
      side.kind = ComparedOperand::Kind::reg;
      side.reg = gpr_of(op.reg.value);
      side.shift = high ? 8 : 0;
    } else if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      side.kind = ComparedOperand::Kind::memory;
    } else {
      side.immediate = op.imm.value.s;
    }
  }
}

bool is_zero_idiom(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
      return d.operands[0].type == d.operands[1].type &&
             d.operands[0].reg.value == d.operands[1].reg.value;
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_VXORPD:
      return d.operands[1].type == d.operands[2].type &&
             d.operands[1].reg.value == d.operands[2].reg.value;
    default: return false;
  }
}

// A register compared with itself is all ones.
bool is_ones_idiom(const Decoded& d) {
  const auto same = [&](size_t a, size_t b) {
    return d.operands[a].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           d.operands[b].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           d.operands[a].reg.value == d.operands[b].reg.value;
  };
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_PCMPEQB:
    case ZYDIS_MNEMONIC_PCMPEQW:
    case ZYDIS_MNEMONIC_PCMPEQD:
    case ZYDIS_MNEMONIC_PCMPEQQ:
      return same(0, 1);
    case ZYDIS_MNEMONIC_VPCMPEQB:
    case ZYDIS_MNEMONIC_VPCMPEQW:
    case ZYDIS_MNEMONIC_VPCMPEQD:
    case ZYDIS_MNEMONIC_VPCMPEQQ:
      return ZydisRegisterGetClass(d.operands[0].reg.value) != ZYDIS_REGCLASS_MASK && same(1, 2);
    case ZYDIS_MNEMONIC_KXNORB:
    case ZYDIS_MNEMONIC_KXNORW:
    case ZYDIS_MNEMONIC_KXNORD:
    case ZYDIS_MNEMONIC_KXNORQ:
    case ZYDIS_MNEMONIC_KXORB:
    case ZYDIS_MNEMONIC_KXORW:
    case ZYDIS_MNEMONIC_KXORD:
    case ZYDIS_MNEMONIC_KXORQ:
      return same(1, 2);
    default:
      return false;
  }
}

// Which of its operands gives nothing but the upper part of the result.
const ZydisDecodedOperand* merged_operand(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_CVTSI2SD:
    case ZYDIS_MNEMONIC_CVTSI2SS:
    case ZYDIS_MNEMONIC_CVTSD2SS:
    case ZYDIS_MNEMONIC_CVTSS2SD:
      return &d.operands[0];
    case ZYDIS_MNEMONIC_VCVTSI2SD:
    case ZYDIS_MNEMONIC_VCVTSI2SS:
    case ZYDIS_MNEMONIC_VCVTSD2SS:
    case ZYDIS_MNEMONIC_VCVTSS2SD:
      return &d.operands[1];
    default:
      return nullptr;
  }
}

// A whole vector to the stack: what functions with any number of arguments begin with, whether or
// not they are given one in a vector.
bool saves_vector(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQU:
      break;
    default:
      return false;
  }
  const ZydisDecodedOperand& to = d.operands[0];
  return to.type == ZYDIS_OPERAND_TYPE_MEMORY &&
         (to.mem.base == ZYDIS_REGISTER_RSP || to.mem.base == ZYDIS_REGISTER_RBP);
}

// Compilers copy, negate and clear doubles with instructions that are not of doubles, too.
bool may_make_double(const ZydisDecodedInstruction& info, const ZydisDecodedOperand& to) {
  if (to.element_type == ZYDIS_ELEMENT_TYPE_FLOAT64) return true;
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_VMOVQ:
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_ANDPS:
    case ZYDIS_MNEMONIC_VANDPS:
    case ZYDIS_MNEMONIC_ANDNPS:
    case ZYDIS_MNEMONIC_VANDNPS:
    case ZYDIS_MNEMONIC_ORPS:
    case ZYDIS_MNEMONIC_VORPS: return true;
    default: return false;
  }
}

void note_vectors(Insn& insn, const Decoded& d) {
  const bool reads_none = is_zero_idiom(d) || is_ones_idiom(d) || saves_vector(d);
  const ZydisDecodedOperand* const merged = merged_operand(d);
  for (const ZydisDecodedOperand& op : d.operands) {
    if (op.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    const ZydisRegisterClass kind = ZydisRegisterGetClass(op.reg.value);
    if (kind != ZYDIS_REGCLASS_XMM && kind != ZYDIS_REGCLASS_YMM && kind != ZYDIS_REGCLASS_ZMM)
      continue;
    const auto number = static_cast<uint8_t>(ZydisRegisterGetId(op.reg.value));
    if (number >= kArgumentVectors) continue;
    const auto bit = static_cast<VectorMask>(1u << number);
    if ((op.actions & ZYDIS_OPERAND_ACTION_MASK_READ) && !reads_none && &op != merged)
      insn.vector_reads |= bit;
    if (!(op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    insn.vector_writes |= bit;
    if (kind == ZYDIS_REGCLASS_XMM && may_make_double(d.info, op)) insn.double_result = number;
  }
}

bool takes_bit_number(const ZydisDecodedInstruction& info) {
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTC:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTS: return info.raw.imm[0].size == 0;
    default: return false;
  }
}

bool is_masked(const ZydisDecodedInstruction& info) {
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ: return true;
    default: break;
  }
  return info.avx.mask.reg != ZYDIS_REGISTER_NONE && info.avx.mask.reg != ZYDIS_REGISTER_K0;
}

bool accesses_all_of(const ZydisDecodedInstruction& info, const ZydisDecodedOperand& op) {
  constexpr ZydisOperandActions kConditional =
      ZYDIS_OPERAND_ACTION_CONDREAD | ZYDIS_OPERAND_ACTION_CONDWRITE;
  constexpr ZydisInstructionAttributes kRepeated =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  return (op.actions & kConditional) == 0 && (info.attributes & kRepeated) == 0 &&
         op.mem.type != ZYDIS_MEMOP_TYPE_VSIB && !takes_bit_number(info) && !is_masked(info);
}

void note_memory(Insn& insn, const ZydisDecodedInstruction& info, const ZydisDecodedOperand& op) {
  MemoryAccess access;
  access.base = gpr_of(op.mem.base);
  const auto& sib = info.raw.sib;
  if (sib.offset != 0 && sib.base == 5 && info.raw.modrm.mod == 0 &&
      op.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT) {
    access.base = kNoGpr;  // with 32-bit addresses, Zydis 4.0 says r13d where REX.B is set
  }
  access.index = gpr_of(op.mem.index);
  access.vector_index = op.mem.type == ZYDIS_MEMOP_TYPE_VSIB;
  access.scale = op.mem.scale;
  access.displacement = op.mem.disp.has_displacement ? op.mem.disp.value : 0;
  access.size = op.size / 8 < 256 ? static_cast<uint8_t>(op.size / 8) : uint8_t{0};
  access.implicit = op.visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
  access.read = (op.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  access.write = (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  access.certain = accesses_all_of(info, op);
  access.hint = info.meta.category == ZYDIS_CATEGORY_PREFETCH;
  // A push writes below where the stack ends before it.
  if (access.implicit && access.write && access.base == kRsp) access.displacement -= access.size;
  insn.reads |= mask_of(access.base);
  insn.reads |= mask_of(access.index);

  if (!access.implicit) {
    const auto& raw = info.raw;
    const bool has_sib = raw.sib.offset != 0;
    if (access.base == kR15) add_field(insn, has_sib ? raw.sib.offset : raw.modrm.offset, 0);
    if (access.index == kR15) add_field(insn, raw.sib.offset, 3);
    if (access.base == kRip) {
      insn.rip_relative = true;
      insn.modrm_offset = raw.modrm.offset;
      insn.displacement_offset = raw.disp.offset;
      const uint64_t target = insn.next().value + static_cast<uint64_t>(raw.disp.value);
      insn.rip_target =
          GuestAddr(op.mem.base == ZYDIS_REGISTER_EIP ? target & 0xffff'ffff : target);
      if (op.mem.base == ZYDIS_REGISTER_EIP) insn.unsupported_reason = "an operand relative to eip";
    }
  }
  if (op.mem.type == ZYDIS_MEMOP_TYPE_AGEN) return;  // lea and the like compute, they do not access
  if (op.mem.segment == ZYDIS_REGISTER_GS) insn.uses_gs = true;
  if (op.mem.segment == ZYDIS_REGISTER_GS || op.mem.segment == ZYDIS_REGISTER_FS)
    insn.has_segment = true;
  if (access.write && !(access.implicit && access.base == kRsp)) insn.writes_memory = true;
  if (insn.access_count < insn.accesses.size()) insn.accesses[insn.access_count++] = access;
}

// The prefix bit that would extend modrm.rm; VEX, EVEX and XOP store it inverted.
bool extends_base(const ZydisDecodedInstruction& info, std::span<const uint8_t> bytes) {
  const auto inverted_b = [&](uint8_t prefix_offset) {
    return (bytes[prefix_offset + 1u] & 0x20) == 0;
  };
  switch (info.encoding) {
    case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
    case ZYDIS_INSTRUCTION_ENCODING_3DNOW:
      return (info.attributes & ZYDIS_ATTRIB_HAS_REX) && info.raw.rex.B;
    case ZYDIS_INSTRUCTION_ENCODING_VEX:
      return info.raw.vex.size == 3 && inverted_b(info.raw.vex.offset);
    case ZYDIS_INSTRUCTION_ENCODING_EVEX: return inverted_b(info.raw.evex.offset);
    case ZYDIS_INSTRUCTION_ENCODING_XOP: return inverted_b(info.raw.xop.offset);
    default: return false;
  }
}

bool is_gs_instruction(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_RDGSBASE:
    case ZYDIS_MNEMONIC_LGS: return true;
    default: break;
  }
  return std::any_of(d.operands.begin(), d.operands.end(), [](const ZydisDecodedOperand& op) {
    return op.type == ZYDIS_OPERAND_TYPE_REGISTER && op.reg.value == ZYDIS_REGISTER_GS &&
           (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
  });
}

// Does nothing with its operands, but with other registers in them it could be an instruction that
// a later processor gave a meaning (rdssp, cldemote): it is left as it is, r15 and all.
bool is_hint(const ZydisDecodedInstruction& info) {
  return info.meta.category == ZYDIS_CATEGORY_WIDENOP || info.meta.category == ZYDIS_CATEGORY_NOP;
}

bool is_memory_branch_or_register(const Decoded& d) {
  return !d.operands.empty() && d.operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

InsnKind branch_kind(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE: return InsnKind::counter_branch;
    case ZYDIS_MNEMONIC_JMP:
      return is_memory_branch_or_register(d) ? InsnKind::indirect_jump : InsnKind::jump;
    case ZYDIS_MNEMONIC_CALL:
      return is_memory_branch_or_register(d) ? InsnKind::indirect_call : InsnKind::call;
    case ZYDIS_MNEMONIC_RET: return InsnKind::ret;
    case ZYDIS_MNEMONIC_SYSCALL: return InsnKind::syscall;
    case ZYDIS_MNEMONIC_XBEGIN: return InsnKind::transaction;
    default: break;
  }
  return d.info.meta.category == ZYDIS_CATEGORY_COND_BR ? InsnKind::conditional
                                                         : InsnKind::ordinary;
}

InsnKind kind_of(const Decoded& d) {
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_SYSRET: return InsnKind::native;
    default: break;
  }
  if (d.info.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return InsnKind::native;
  return branch_kind(d);
}

// With a 66 prefix and no REX.W, AMD truncates the target of a near branch to 16 bits and Intel
// ignores the prefix. No compiler emits it; we do not guess.
bool is_narrow_branch(const Decoded& d, InsnKind kind) {
  const bool near_branch = kind == InsnKind::jump || kind == InsnKind::call ||
                           kind == InsnKind::conditional || kind == InsnKind::ret ||
                           kind == InsnKind::indirect_jump || kind == InsnKind::indirect_call;
  return near_branch && (d.info.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) &&
         !(d.info.attributes & ZYDIS_ATTRIB_HAS_REX && d.info.raw.rex.W);
}

void note_branch(Insn& insn, const Decoded& d) {
  switch (insn.kind) {
    case InsnKind::conditional:
    case InsnKind::counter_branch:
    case InsnKind::jump:
    case InsnKind::call:
    case InsnKind::transaction:
      insn.branch_target = insn.next() + static_cast<uint64_t>(d.info.raw.imm[0].value.s);
      break;
    case InsnKind::ret:
      if (d.info.raw.imm[0].size)
        insn.ret_pop_bytes = static_cast<uint16_t>(d.info.raw.imm[0].value.u);
      break;
    default: break;
  }
}

uint8_t flag_bits(ZydisAccessedFlagsMask mask) {
  uint8_t bits = 0;
  if (mask & ZYDIS_CPUFLAG_CF) bits |= kCf;
  if (mask & ZYDIS_CPUFLAG_PF) bits |= kPf;
  if (mask & ZYDIS_CPUFLAG_AF) bits |= kAf;
  if (mask & ZYDIS_CPUFLAG_ZF) bits |= kZf;
  if (mask & ZYDIS_CPUFLAG_SF) bits |= kSf;
  if (mask & ZYDIS_CPUFLAG_OF) bits |= kOf;
  return bits;
}

// Shifts by zero and repetitions of no length leave the flags alone; flags that the manuals call
// undefined count as written only where every processor clears them.
void note_flags(Insn& insn, const ZydisDecodedInstruction& info) {
  const ZydisAccessedFlags* flags = info.cpu_flags;
  if (!flags) return;
  insn.flags_read = flag_bits(flags->tested);
  switch (info.meta.category) {
    case ZYDIS_CATEGORY_SHIFT:
    case ZYDIS_CATEGORY_ROTATE:
    case ZYDIS_CATEGORY_STRINGOP: return;
    default: break;
  }
  // A system call masks the flags for the kernel and gives them back.
  if (insn.kind == InsnKind::syscall) return;
  insn.flags_written = flag_bits(flags->modified | flags->set_0 | flags->set_1);
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_SBB:
      insn.flags_written |= flag_bits(flags->undefined);
      break;
    default: break;
  }
}

// Integer instructions between registers, division excepted.
bool is_faultless(const Insn& insn, const ZydisDecodedInstruction& info) {
  if (insn.kind != InsnKind::ordinary || insn.access_count != 0) return false;
  if (info.mnemonic == ZYDIS_MNEMONIC_DIV || info.mnemonic == ZYDIS_MNEMONIC_IDIV) return false;
  switch (info.meta.category) {
    case ZYDIS_CATEGORY_BINARY:
    case ZYDIS_CATEGORY_BITBYTE:
    case ZYDIS_CATEGORY_CMOV:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_ROTATE:
    case ZYDIS_CATEGORY_SETCC:
    case ZYDIS_CATEGORY_SHIFT: return true;
    case ZYDIS_CATEGORY_NOP:  // other hints are undefined on some processors (0f 0d on AMD's)
    case ZYDIS_CATEGORY_WIDENOP:
      return info.opcode == 0x90 || info.opcode == 0x1f;
    case ZYDIS_CATEGORY_DATAXFER:
      return info.mnemonic == ZYDIS_MNEMONIC_MOVSXD ||
             (info.meta.isa_ext == ZYDIS_ISA_EXT_BASE &&
              (info.mnemonic == ZYDIS_MNEMONIC_MOV || info.mnemonic == ZYDIS_MNEMONIC_MOVZX ||
               info.mnemonic == ZYDIS_MNEMONIC_MOVSX));
    default: return info.mnemonic == ZYDIS_MNEMONIC_LEA || info.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
  }
}

// A load that may be timed by itself: one explicit read, one register written, nothing else.
bool is_pure_load(const Insn& insn, const Decoded& d) {
  if (insn.kind != InsnKind::ordinary || insn.access_count != 1) return false;
  const MemoryAccess& a = insn.accesses[0];
  if (a.implicit || !a.read || a.write || a.vector_index) return false;
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD: return true;
    default: return false;
  }
}

void note_load(Insn& insn, const Decoded& d) {
  while (insn.load_access < insn.access_count && !insn.accesses[insn.load_access].read)
    insn.load_access++;
  if (insn.load_access == insn.access_count) {
    insn.load_access = 0;
    return;
  }
  switch (insn.kind) {
    case InsnKind::ret: insn.load = LoadKind::stack; break;
    case InsnKind::indirect_jump:
    case InsnKind::indirect_call: insn.load = LoadKind::branch; break;
    case InsnKind::ordinary:
      insn.load = kind_of_load(insn, d.info);
      break;
    default: break;
  }
}

// Immediates, addresses relative to rip, and a register combined with itself to zero. Others that
// are constant (and with 0) no compiler emits.
bool is_constant_result(const Insn& insn, const Decoded& d) {
  if (insn.element_result.kind != ElementResult::Register::none)
    return is_zero_idiom(d) || is_ones_idiom(d);
  if (insn.result >= 16 || d.operands.size() < 2) return false;
  const ZydisDecodedOperand& to = d.operands[0];
  const ZydisDecodedOperand& from = d.operands[1];
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_MOV: return from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    case ZYDIS_MNEMONIC_LEA: return insn.reads == 0;
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
      return to.type == ZYDIS_OPERAND_TYPE_REGISTER && from.type == ZYDIS_OPERAND_TYPE_REGISTER &&
             to.reg.value == from.reg.value;
    default: return false;
  }
}

bool is_whole_register(const ZydisDecodedOperand& op) {
  return op.type == ZYDIS_OPERAND_TYPE_REGISTER &&
         ZydisRegisterGetClass(op.reg.value) == ZYDIS_REGCLASS_GPR64;
}

// op1 of a two-operand instruction is added to op0, as a constant.
RegisterSum sum_of_operands(const Decoded& d) {
  if (d.operands.empty() || !is_whole_register(d.operands[0])) return {};
  const Gpr to = gpr_of(d.operands[0].reg.value);
  const auto added = [&](int64_t constant) { return RegisterSum{to, to, constant}; };
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_INC: return added(1);
    case ZYDIS_MNEMONIC_DEC: return added(-1);
    default: break;
  }
  if (d.operands.size() < 2) return {};
  const ZydisDecodedOperand& from = d.operands[1];
  const bool immediate = from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_ADD: return immediate ? added(from.imm.value.s) : RegisterSum{};
    case ZYDIS_MNEMONIC_SUB: return immediate ? added(-from.imm.value.s) : RegisterSum{};
    case ZYDIS_MNEMONIC_MOV:
      return is_whole_register(from) ? RegisterSum{to, gpr_of(from.reg.value), 0} : RegisterSum{};
    case ZYDIS_MNEMONIC_LEA: {
      const bool plain = from.mem.index == ZYDIS_REGISTER_NONE && d.info.address_width == 64 &&
                         gpr_of(from.mem.base) < 16;
      return plain ? RegisterSum{to, gpr_of(from.mem.base), from.mem.disp.value} : RegisterSum{};
    }
    default: return {};
  }
}

RegisterSum sum_of(const Insn& insn, const Decoded& d) {
  const auto stack = [&](int64_t by) { return RegisterSum{kRsp, kRsp, by}; };
  const int64_t width = d.info.operand_width / 8;
  switch (d.info.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH: return stack(-width);
    case ZYDIS_MNEMONIC_POP: return insn.result == kRsp ? RegisterSum{} : stack(width);
    case ZYDIS_MNEMONIC_LEAVE: return {kRsp, kRbp, width};
    default: break;
  }
  if (insn.kind == InsnKind::call) return stack(-8);
  return insn.kind == InsnKind::ordinary ? sum_of_operands(d) : RegisterSum{};
}

}  // namespace

Insn decode(std::span<const uint8_t> bytes, GuestAddr address) {
  if (Insn insn; decode_plain(bytes, address, insn)) return insn;
  return decode_by_zydis(bytes, address);
}

Insn decode_by_zydis(std::span<const uint8_t> bytes, GuestAddr address) {
  Insn insn;
  insn.address = address;
  ZydisDecodedInstruction info;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  const ZyanStatus status =
      ZydisDecoderDecodeFull(&zydis(), bytes.data(), bytes.size(), &info, operands.data());
  if (!ZYAN_SUCCESS(status)) {
    insn.kind = InsnKind::native;
    return insn;
  }
  insn.length = info.length;
  std::memcpy(insn.bytes.data(), bytes.data(), info.length);

  insn.prefetches = info.meta.category == ZYDIS_CATEGORY_PREFETCH;
  insn.asks_processor = info.mnemonic == ZYDIS_MNEMONIC_CPUID;
  insn.asks_enabled_state = info.mnemonic == ZYDIS_MNEMONIC_XGETBV;
  insn.reads_clock =
      info.mnemonic == ZYDIS_MNEMONIC_RDTSC || info.mnemonic == ZYDIS_MNEMONIC_RDTSCP;
  const Decoded d{info, {operands.data(), info.operand_count}};
  for (const ZydisDecodedOperand& op : d.operands) {
    if (is_hint(info)) break;
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) note_register(insn, info, op);
    if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) note_memory(insn, info, op);
  }
  if (info.mnemonic == ZYDIS_MNEMONIC_PAUSE && extends_base(info, bytes)) {
    // Processors execute F3 REX.B 90 as xchg r8, rax; the tables call it pause.
    constexpr auto kExchanged = static_cast<GprMask>(gpr_bit(kRax) | gpr_bit(kR8));
    insn.reads |= kExchanged;
    insn.writes |= kExchanged;
  }
  insn.kind = kind_of(d);
  if (!is_hint(info)) note_more_results(insn, d);
  note_compare(insn, d);
  note_stored(insn, d);
  note_vectors(insn, d);
  note_flags(insn, info);
  insn.lea64 = info.mnemonic == ZYDIS_MNEMONIC_LEA && info.operand_width == 64;
  insn.condition = info.opcode & 0xf;
  if (info.attributes & ZYDIS_ATTRIB_HAS_REX) insn.rex_offset = info.raw.rex.offset;
  if (insn.rip_relative) insn.base_bit = extends_base(info, bytes);
  insn.immediate_bytes = static_cast<uint8_t>((info.raw.imm[0].size + info.raw.imm[1].size) / 8);
  insn.vex = info.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
             info.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
  if (info.raw.modrm.offset) insn.opcode_offset = static_cast<uint8_t>(info.raw.modrm.offset - 1);
  note_branch(insn, d);
  if (is_gs_instruction(d)) insn.uses_gs = true;
  if (is_narrow_branch(d, insn.kind)) insn.unsupported_reason = "a branch with a 16-bit target";
  if (info.mnemonic == ZYDIS_MNEMONIC_INT && info.raw.imm[0].value.u == 0x80) {
    insn.unsupported_reason = "a 32-bit system call (int 0x80)";
  }
  if (insn.unsupported_reason) insn.kind = InsnKind::unsupported;
  insn.pure_load = is_pure_load(insn, d);
  note_load(insn, d);
  if (insn.kind == InsnKind::ordinary && insn.result == kNoGpr) {
    insn.element_result = element_result_of(d.info, d.operands);
    insn.loads_static = loads_static(insn, d.info, d.operands);
  }
  insn.constant_result = is_constant_result(insn, d);
  insn.sum = sum_of(insn, d);
  insn.may_fault = !is_faultless(insn, info);
  return insn;
}

std::string disassemble(std::span<const uint8_t> bytes, GuestAddr address) {
  ZydisDecodedInstruction info;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  if (!ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&zydis(), bytes.data(), bytes.size(), &info, operands.data()))) {
    return "(bad)";
  }
  ZydisFormatter formatter;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  std::array<char, 128> text{};
  ZydisFormatterFormatInstruction(&formatter, &info, operands.data(), info.operand_count_visible,
                                  text.data(), text.size(), address.value, nullptr);
  return text.data();
}

}  // namespace shadowprof::decoder
