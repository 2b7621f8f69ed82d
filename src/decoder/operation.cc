// SPDX-License-Identifier: MIT
#include "decoder/operation.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <span>

#include "base/check.h"
#include "decoder/plain_insn.h"

namespace shadowprof::decoder {
namespace {

struct Full {
  ZydisDecodedInstruction info;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> all;
  std::span<const ZydisDecodedOperand> operands() const { return {all.data(), info.operand_count}; }
};

Full decode_fully(const Insn& insn) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  Full full;
  const ZyanStatus status =
      ZydisDecoderDecodeFull(&decoder, insn.bytes.data(), insn.length, &full.info, full.all.data());
  SP_CHECK(ZYAN_SUCCESS(status), "an instruction that was decoded before is none");
  return full;
}

bool is_gpr(ZydisRegister reg) {
  const ZydisRegisterClass c = ZydisRegisterGetClass(reg);
  return c == ZYDIS_REGCLASS_GPR8 || c == ZYDIS_REGCLASS_GPR16 || c == ZYDIS_REGCLASS_GPR32 ||
         c == ZYDIS_REGCLASS_GPR64;
}

Gpr gpr_number(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_RIP || reg == ZYDIS_REGISTER_EIP) return kRip;
  if (!is_gpr(reg)) return kNoGpr;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  return static_cast<Gpr>(whole - ZYDIS_REGISTER_RAX);
}

struct NamedCode {
  ZydisMnemonic mnemonic;
  Code code;
};

// Where the operands are registers, memory or immediates of general purpose.
constexpr NamedCode kNamed[] = {
    {ZYDIS_MNEMONIC_MOV, Code::mov},
    {ZYDIS_MNEMONIC_MOVZX, Code::movzx},
    {ZYDIS_MNEMONIC_MOVSX, Code::movsx},
    {ZYDIS_MNEMONIC_MOVSXD, Code::movsx},
    {ZYDIS_MNEMONIC_LEA, Code::lea},
    {ZYDIS_MNEMONIC_ADD, Code::add},
    {ZYDIS_MNEMONIC_OR, Code::or_},
    {ZYDIS_MNEMONIC_ADC, Code::adc},
    {ZYDIS_MNEMONIC_SBB, Code::sbb},
    {ZYDIS_MNEMONIC_AND, Code::and_},
    {ZYDIS_MNEMONIC_SUB, Code::sub},
    {ZYDIS_MNEMONIC_XOR, Code::xor_},
    {ZYDIS_MNEMONIC_CMP, Code::cmp},
    {ZYDIS_MNEMONIC_TEST, Code::test},
    {ZYDIS_MNEMONIC_INC, Code::inc},
    {ZYDIS_MNEMONIC_DEC, Code::dec},
    {ZYDIS_MNEMONIC_NEG, Code::neg},
    {ZYDIS_MNEMONIC_NOT, Code::not_},
    {ZYDIS_MNEMONIC_SHL, Code::shl},
    {ZYDIS_MNEMONIC_SHR, Code::shr},
    {ZYDIS_MNEMONIC_SAR, Code::sar},
    {ZYDIS_MNEMONIC_ROL, Code::rol},
    {ZYDIS_MNEMONIC_ROR, Code::ror},
    {ZYDIS_MNEMONIC_IMUL, Code::imul},
    {ZYDIS_MNEMONIC_XCHG, Code::xchg},
    {ZYDIS_MNEMONIC_CWD, Code::cqo},
    {ZYDIS_MNEMONIC_CDQ, Code::cqo},
    {ZYDIS_MNEMONIC_CQO, Code::cqo},
    {ZYDIS_MNEMONIC_CBW, Code::movsx},
    {ZYDIS_MNEMONIC_CWDE, Code::movsx},
    {ZYDIS_MNEMONIC_CDQE, Code::movsx},
    {ZYDIS_MNEMONIC_PUSH, Code::push},
    {ZYDIS_MNEMONIC_POP, Code::pop},
    {ZYDIS_MNEMONIC_LEAVE, Code::leave},
    {ZYDIS_MNEMONIC_PUSHF, Code::pushf},
    {ZYDIS_MNEMONIC_PUSHFQ, Code::pushf},
    {ZYDIS_MNEMONIC_POPF, Code::popf},
    {ZYDIS_MNEMONIC_POPFQ, Code::popf},
    {ZYDIS_MNEMONIC_CLD, Code::cld},
    {ZYDIS_MNEMONIC_STD, Code::std_},
    {ZYDIS_MNEMONIC_BT, Code::bit},
    {ZYDIS_MNEMONIC_BTS, Code::bit},
    {ZYDIS_MNEMONIC_BTR, Code::bit},
    {ZYDIS_MNEMONIC_BTC, Code::bit},
    {ZYDIS_MNEMONIC_RDFSBASE, Code::read_base},
    {ZYDIS_MNEMONIC_RDGSBASE, Code::read_base},
    {ZYDIS_MNEMONIC_WRFSBASE, Code::write_base},
    {ZYDIS_MNEMONIC_WRGSBASE, Code::write_base},
    {ZYDIS_MNEMONIC_MOVSB, Code::movs},
    {ZYDIS_MNEMONIC_MOVSW, Code::movs},
    {ZYDIS_MNEMONIC_MOVSD, Code::movs},
    {ZYDIS_MNEMONIC_MOVSQ, Code::movs},
    {ZYDIS_MNEMONIC_STOSB, Code::stos},
    {ZYDIS_MNEMONIC_STOSW, Code::stos},
    {ZYDIS_MNEMONIC_STOSD, Code::stos},
    {ZYDIS_MNEMONIC_STOSQ, Code::stos},
    {ZYDIS_MNEMONIC_LODSB, Code::lods},
    {ZYDIS_MNEMONIC_LODSW, Code::lods},
    {ZYDIS_MNEMONIC_LODSD, Code::lods},
    {ZYDIS_MNEMONIC_LODSQ, Code::lods},
    {ZYDIS_MNEMONIC_SCASB, Code::scas},
    {ZYDIS_MNEMONIC_SCASW, Code::scas},
    {ZYDIS_MNEMONIC_SCASD, Code::scas},
    {ZYDIS_MNEMONIC_SCASQ, Code::scas},
    {ZYDIS_MNEMONIC_CMPSB, Code::cmps},
    {ZYDIS_MNEMONIC_CMPSW, Code::cmps},
    {ZYDIS_MNEMONIC_CMPSD, Code::cmps},
    {ZYDIS_MNEMONIC_CMPSQ, Code::cmps},
    {ZYDIS_MNEMONIC_XLAT, Code::xlat},
    {ZYDIS_MNEMONIC_JMP, Code::target},
    {ZYDIS_MNEMONIC_CALL, Code::target},
};

bool is_string(Code code) {
  return code == Code::movs || code == Code::stos || code == Code::lods || code == Code::scas ||
         code == Code::cmps;
}

// movsd and cmpsd are also instructions on vectors.
bool is_vector_namesake(const Full& full) {
  return full.info.meta.category != ZYDIS_CATEGORY_STRINGOP;
}

// Those with a register may be undefined on this processor (0f 0d on AMD's), and those in VEX
// encoding are Knights Corner's alone: they are cells.
bool is_hint_for_all(const ZydisDecodedInstruction& info) {
  if (info.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return false;
  if (info.raw.modrm.offset != 0 && info.raw.modrm.mod == 3 && info.opcode != 0x1f) {
    return info.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
  }
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_CLDEMOTE:
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_ENDBR32:
      return true;
    default:
      break;
  }
  return info.meta.category == ZYDIS_CATEGORY_NOP || info.meta.category == ZYDIS_CATEGORY_WIDENOP ||
         info.meta.category == ZYDIS_CATEGORY_PREFETCH;
}

Code code_of(const Full& full) {
  const ZydisDecodedInstruction& info = full.info;
  if (info.meta.category == ZYDIS_CATEGORY_CMOV) return Code::cmov;
  if (info.meta.category == ZYDIS_CATEGORY_SETCC) return Code::setcc;
  if (is_hint_for_all(info)) return Code::nop;
  const auto named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                  [&](const NamedCode& n) { return n.mnemonic == info.mnemonic; });
  if (named == std::end(kNamed)) return Code::cell;
  if (is_string(named->code) && is_vector_namesake(full)) return Code::cell;
  return named->code;
}

// Operands as they are written, of the kinds that Operand has; false if one is of another kind.
bool take_operands(const Full& full, Operation& out) {
  size_t count = 0;
  for (const ZydisDecodedOperand& op : full.operands()) {
    if (op.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) break;
    if (count == out.operands.size()) return false;
    Operand& to = out.operands[count++];
    to.bits = static_cast<uint8_t>(std::min<unsigned>(op.size, 255));
    switch (op.type) {
      case ZYDIS_OPERAND_TYPE_REGISTER:
        if (!is_gpr(op.reg.value)) return false;
        to.kind = Operand::Kind::reg;
        to.reg = gpr_number(op.reg.value);
        to.high = op.reg.value >= ZYDIS_REGISTER_AH && op.reg.value <= ZYDIS_REGISTER_BH;
        break;
      case ZYDIS_OPERAND_TYPE_MEMORY:
        to.kind = Operand::Kind::memory;
        break;
      case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        to.kind = Operand::Kind::immediate;
        out.immediate = op.imm.value.s;
        break;
      default:
        return false;
    }
  }
  return true;
}

Segment segment_of(const ZydisDecodedOperand& op) {
  if (op.mem.segment == ZYDIS_REGISTER_FS) return Segment::fs;
  return op.mem.segment == ZYDIS_REGISTER_GS ? Segment::gs : Segment::none;
}

// Its memory operand is the processor's XSAVE area, or a part of that.
bool has_state_area(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
      return true;
    default:
      return false;
  }
}

void take_memory(const Insn& insn, const Full& full, const ZydisDecodedOperand& op,
                 Operation& out) {
  out.has_memory = true;
  out.segment = segment_of(op);
  out.address32 = full.info.address_width == 32;
  out.base = gpr_number(op.mem.base);
  const auto& raw = full.info.raw;
  // With 32-bit addresses, Zydis 4.0 says r13d where there is no base and REX.B is set.
  if (raw.sib.offset != 0 && raw.sib.base == 5 && raw.modrm.mod == 0) out.base = kNoGpr;
  out.index = gpr_number(op.mem.index);
  out.scale_shift = op.mem.scale == 8 ? 3 : op.mem.scale == 4 ? 2 : op.mem.scale == 2 ? 1 : 0;
  out.displacement = op.mem.disp.has_displacement ? op.mem.disp.value : 0;
  if (out.base == kRip) {
    out.base = kNoGpr;
    out.displacement += static_cast<int64_t>(insn.next().value);
  }
  out.reads_memory = (op.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  out.writes_memory = (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  // Zydis knows the smallest area alone.
  if (!has_state_area(full.info.mnemonic)) out.memory_bytes = static_cast<uint16_t>(op.size / 8);
}

bool is_state_register(ZydisRegister reg) {
  return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_SEGMENT;
}

const char* why_no_cell(const Full& full) {
  const ZydisDecodedInstruction& info = full.info;
  for (const ZydisDecodedOperand& op : full.operands()) {
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      const ZydisRegisterClass c = ZydisRegisterGetClass(op.reg.value);
      if (is_state_register(op.reg.value) && (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) {
        return "it loads a segment register";
      }
      if (c == ZYDIS_REGCLASS_TMM) return "it uses tile registers";
      continue;
    }
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (op.mem.type == ZYDIS_MEMOP_TYPE_VSIB) return "it gathers or scatters";
    if (op.visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT) return "its address is implicit";
    if (info.raw.modrm.offset == 0) return "its address has an unusual encoding";
  }
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_MOVDIR64B:
    case ZYDIS_MNEMONIC_MONITORX:
    case ZYDIS_MNEMONIC_RDPKRU:
    case ZYDIS_MNEMONIC_WRPKRU:
      return "it has no equivalent in another process";
    case ZYDIS_MNEMONIC_XRSTORS:
    case ZYDIS_MNEMONIC_XSAVES:
      return "it is privileged";
    default:
      return nullptr;
  }
}

bool touches_vectors(const Full& full) {
  switch (full.info.meta.isa_ext) {
    case ZYDIS_ISA_EXT_BASE:
    case ZYDIS_ISA_EXT_LONGMODE:
    case ZYDIS_ISA_EXT_BMI1:
    case ZYDIS_ISA_EXT_BMI2:
    case ZYDIS_ISA_EXT_LZCNT:
    case ZYDIS_ISA_EXT_ADOX_ADCX:
    case ZYDIS_ISA_EXT_MOVBE:
      return false;
    default:
      return true;
  }
}

bool is_nondeterministic(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_CPUID:
      return true;
    default:
      return false;
  }
}

void describe_cell(const Full& full, Operation& out) {
  out.unsupported_reason = why_no_cell(full);
  if (out.unsupported_reason) {
    out.code = Code::unsupported;
    return;
  }
  for (const ZydisDecodedOperand& op : full.operands()) {
    if (op.type != ZYDIS_OPERAND_TYPE_REGISTER || !is_gpr(op.reg.value)) continue;
    const GprMask bit = gpr_bit(gpr_number(op.reg.value));
    out.loads |= bit;
    if (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) out.stores |= bit;
  }
  if (full.info.mnemonic == ZYDIS_MNEMONIC_PAUSE && full.info.raw.rex.B) {
    // Processors execute F3 REX.B 90 as xchg r8, rax; the tables call it pause.
    out.loads = out.stores = static_cast<GprMask>(gpr_bit(kRax) | gpr_bit(kR8));
  }
  const ZydisAccessedFlags* flags = full.info.cpu_flags;
  constexpr ZydisAccessedFlagsMask kArithmetic = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF |
                                                 ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |
                                                 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;
  out.uses_flags =
      flags && ((flags->tested | flags->modified | flags->set_0 | flags->set_1 | flags->undefined) &
                kArithmetic) != 0;
  out.uses_vectors = touches_vectors(full);
  out.nondeterministic = is_nondeterministic(full.info.mnemonic);
}

uint8_t bit_variant(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_BTS:
      return 1;
    case ZYDIS_MNEMONIC_BTR:
      return 2;
    case ZYDIS_MNEMONIC_BTC:
      return 3;
    default:
      return 0;
  }
}

void describe_string(const Full& full, Operation& out) {
  out.bits = static_cast<uint8_t>(full.info.operand_width);
  for (const ZydisDecodedOperand& op : full.operands()) {
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    out.bits = static_cast<uint8_t>(op.size);
    // Only the source may have a segment.
    if (segment_of(op) != Segment::none) out.segment = segment_of(op);
  }
  const auto attributes = full.info.attributes;
  if (attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE)) out.repeat = Repeat::repe;
  if (attributes & ZYDIS_ATTRIB_HAS_REPNE) out.repeat = Repeat::repne;
  out.address32 = full.info.address_width == 32;
  if (out.address32) {
    out.code = Code::unsupported;
    out.unsupported_reason = "a string instruction with 32-bit addresses";
  }
}

// The sign-extending accumulator instructions as a movsx of it.
void describe_widening(const Full& full, Operation& out) {
  const uint8_t from = full.info.mnemonic == ZYDIS_MNEMONIC_CBW    ? 8
                       : full.info.mnemonic == ZYDIS_MNEMONIC_CWDE ? 16
                                                                   : 32;
  const auto to = static_cast<uint8_t>(from * 2);
  out.bits = to;
  out.operands[0] = {Operand::Kind::reg, kRax, false, to};
  out.operands[1] = {Operand::Kind::reg, kRax, false, from};
}

bool is_widening(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_CBW || m == ZYDIS_MNEMONIC_CWDE || m == ZYDIS_MNEMONIC_CDQE;
}

// For a named operation; false: it is a cell after all.
bool describe_named(const Full& full, Operation& out) {
  const ZydisDecodedInstruction& info = full.info;
  out.bits = static_cast<uint8_t>(info.operand_width);
  out.variant = info.opcode & 0xf;
  if (out.code == Code::bit) out.variant = bit_variant(info.mnemonic);
  if (is_string(out.code)) {
    describe_string(full, out);
    return true;
  }
  if (is_widening(info.mnemonic)) {
    describe_widening(full, out);
    return true;
  }
  switch (out.code) {
    case Code::nop:
      // F3 REX.B 90, which processors execute as xchg r8, rax.
      return !(info.mnemonic == ZYDIS_MNEMONIC_PAUSE || (info.opcode == 0x90 && info.raw.rex.B));
    case Code::leave:
    case Code::pushf:
    case Code::popf:
      return out.bits == 64;
    case Code::cqo:
    case Code::cld:
    case Code::std_:
      return true;
    case Code::xlat:
      for (const ZydisDecodedOperand& op : full.operands()) {
        if (op.type == ZYDIS_OPERAND_TYPE_MEMORY) out.segment = segment_of(op);
      }
      return info.address_width == 64;
    default:
      break;
  }
  if (!take_operands(full, out)) return false;
  const Operand& first = out.operands[0];
  switch (out.code) {
    case Code::bit:
      return first.kind == Operand::Kind::memory && out.operands[1].kind == Operand::Kind::reg;
    case Code::imul:
      return out.operands[1].kind != Operand::Kind::none && out.bits >= 16;
    case Code::push:
    case Code::pop:
      return out.bits == 64;
    case Code::read_base:
    case Code::write_base:
      out.segment =
          info.mnemonic == ZYDIS_MNEMONIC_RDGSBASE || info.mnemonic == ZYDIS_MNEMONIC_WRGSBASE
              ? Segment::gs
              : Segment::fs;
      return true;
    case Code::setcc:
      out.bits = 8;
      return true;
    case Code::movzx:
    case Code::movsx:
      return out.operands[1].bits < 64;
    default:
      return true;
  }
}

Operation with_memory(const Insn& insn, const Full& full) {
  Operation out;
  for (const ZydisDecodedOperand& op : full.operands()) {
    const bool is_explicit = op.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
    if (op.type == ZYDIS_OPERAND_TYPE_MEMORY && is_explicit) take_memory(insn, full, op, out);
  }
  return out;
}

Operation cell_of(const Insn& insn, const Full& full) {
  Operation out = with_memory(insn, full);
  describe_cell(full, out);
  return out;
}

}  // namespace

Operation decode_operation(const Insn& insn) {
  if (Operation out; plain_operation(insn, out)) return out;
  return decode_operation_by_zydis(insn);
}

Operation decode_operation_by_zydis(const Insn& insn) {
  const Full full = decode_fully(insn);
  Operation out = with_memory(insn, full);
  out.code = code_of(full);
  if (out.code == Code::cell || !describe_named(full, out)) return cell_of(insn, full);
  return out;
}

Operation describe_as_cell(const Insn& insn) {
  return cell_of(insn, decode_fully(insn));
}

std::string encode_cell(const Insn& insn, Gpr pointer) {
  const Full full = decode_fully(insn);
  const auto& raw = full.info.raw;
  const auto* bytes = reinterpret_cast<const char*>(insn.bytes.data());
  const bool has_memory = std::any_of(
      full.operands().begin(), full.operands().end(),
      [](const ZydisDecodedOperand& op) { return op.type == ZYDIS_OPERAND_TYPE_MEMORY; });
  if (!has_memory) return {bytes, insn.length};
  SP_CHECK(raw.modrm.offset != 0 && raw.modrm.mod != 3, "a memory operand without a modrm byte");
  std::string out;
  for (uint8_t i = 0; i < raw.modrm.offset; i++) {
    const bool is_prefix = i < full.info.raw.prefix_count;
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (is_prefix && (byte == 0x64 || byte == 0x65 || byte == 0x67)) continue;
    // A REX prefix before another prefix means nothing; it must not come to stand before the
    // opcode.
    const bool is_rex =
        (byte & 0xf0) == 0x40 && full.info.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
    const bool counts = (full.info.attributes & ZYDIS_ATTRIB_HAS_REX) && i == raw.rex.offset;
    if (is_rex && is_prefix && !counts) continue;
    auto changed = byte;
    const auto& info = full.info;
    // X and B extend index and base, and are there inverted but for REX.
    if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
        info.encoding == ZYDIS_INSTRUCTION_ENCODING_3DNOW) {
      if ((info.attributes & ZYDIS_ATTRIB_HAS_REX) && i == raw.rex.offset) changed &= 0xfc;
    } else if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX) {
      if (raw.vex.size == 3 && i == raw.vex.offset + 1) changed |= 0x60;
    } else if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) {
      if (i == raw.evex.offset + 1) changed |= 0x60;
    } else if (info.encoding == ZYDIS_INSTRUCTION_ENCODING_XOP) {
      if (i == raw.xop.offset + 1) changed |= 0x60;
    }
    out.push_back(static_cast<char>(changed));
  }
  const auto modrm = static_cast<uint8_t>(bytes[raw.modrm.offset]);
  out.push_back(static_cast<char>((modrm & 0x38) | pointer));
  const size_t after = raw.modrm.offset + 1u + (raw.sib.offset != 0 ? 1u : 0u) + raw.disp.size / 8u;
  out.append(bytes + after, insn.length - after);
  return out;
}

}  // namespace shadowprof::decoder
