// SPDX-License-Identifier: MIT
#include "decoder/element_result.h"

#include <algorithm>
#include <string_view>

namespace shadowprof::decoder {
namespace {

bool is_bitwise(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_ANDPS:
    case ZYDIS_MNEMONIC_ANDNPS:
    case ZYDIS_MNEMONIC_ORPS:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_VANDPS:
    case ZYDIS_MNEMONIC_VANDNPS:
    case ZYDIS_MNEMONIC_VORPS:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_PAND:
    case ZYDIS_MNEMONIC_VPAND:
      return true;
    default:
      return false;
  }
}

bool moves_anything(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVUPS:
      return true;
    default:
      return false;
  }
}

// The tables say too little of integers in vector registers; the last letters of the name say it.
uint8_t integer_bits(std::string_view name) {
  if (name.starts_with("vpdp") && name.ends_with('s')) name.remove_suffix(1);  // saturating
  if (name.find("cvt") != name.npos && name.ends_with("dq")) return 32;
  if (name.ends_with("dqu8")) return 8;
  if (name.ends_with("dqu16")) return 16;
  if (name.ends_with("dqu32") || name.ends_with("dqa32")) return 32;
  switch (name.back()) {
    case 'b':
      return 8;
    case 'w':
      return 16;
    case 'd':
      return 32;
    default:
      return 64;
  }
}

void note_element_type(ElementResult& result, const ZydisDecodedInstruction& info,
                       const ZydisDecodedOperand& to) {
  const std::string_view name = ZydisMnemonicGetString(info.mnemonic);
  const bool compares = name.starts_with("cmp") || name.starts_with("vcmp");
  const bool rounds = name.ends_with("roundsd") || name.ends_with("roundss");
  const bool half = to.element_type == ZYDIS_ELEMENT_TYPE_FLOAT16;
  const bool number = rounds || to.element_type == ZYDIS_ELEMENT_TYPE_FLOAT32 ||
                      to.element_type == ZYDIS_ELEMENT_TYPE_FLOAT64;
  const bool repeats = name.find("broadcast") != name.npos;
  if (name.ends_with("movddup")) {
    result.type = ElementType::f64;
    result.bits = 64;
  } else if (is_bitwise(info.mnemonic) || moves_anything(info.mnemonic) || name == "lddqu" ||
             name == "vlddqu") {
    result.bits = 64;  // of whatever is in there
  } else if (half || !number) {
    result.bits = half ? 16 : integer_bits(name);
    const bool moves_one = name == "movd" || name == "vmovd" || name == "movq" || name == "vmovq";
    if (moves_one) result.elements = 1;
  } else {
    const bool wide = rounds ? name.ends_with("sd") : to.element_size == 64;
    result.bits = wide ? 64 : 32;
    if (!compares) result.type = wide ? ElementType::f64 : ElementType::f32;
    if (!repeats && (name.ends_with("sd") || name.ends_with("ss"))) result.elements = 1;
  }
}

// The mask of pcmpistrm and the like is in xmm0, which they do not name.
bool makes_hidden_mask(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_PCMPESTRM:
    case ZYDIS_MNEMONIC_PCMPISTRM:
    case ZYDIS_MNEMONIC_VPCMPESTRM:
    case ZYDIS_MNEMONIC_VPCMPISTRM:
      return true;
    default:
      return false;
  }
}

}  // namespace

ElementResult element_result_of(const ZydisDecodedInstruction& info,
                                std::span<const ZydisDecodedOperand> operands) {
  ElementResult result;
  if (operands.empty()) return result;
  ZydisDecodedOperand to = operands[0];
  if (makes_hidden_mask(info.mnemonic)) {
    to.reg.value = ZYDIS_REGISTER_XMM0;
    to.actions = ZYDIS_OPERAND_ACTION_WRITE;
  }
  if (to.type != ZYDIS_OPERAND_TYPE_REGISTER || !(to.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
      to.visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
    return result;
  unsigned bits = 0;
  switch (ZydisRegisterGetClass(to.reg.value)) {
    case ZYDIS_REGCLASS_XMM:
      bits = 128;
      break;
    case ZYDIS_REGCLASS_YMM:
      bits = 256;
      break;
    case ZYDIS_REGCLASS_ZMM:
      bits = 512;
      break;
    case ZYDIS_REGCLASS_MASK:
      result.kind = ElementResult::Register::mask;
      result.bits = 64;
      result.elements = 1;
      break;
    default:
      return result;
  }
  result.reg = static_cast<uint8_t>(ZydisRegisterGetId(to.reg.value));
  if (bits == 0) return result;
  result.kind = ElementResult::Register::vector;
  note_element_type(result, info, to);
  if (result.elements == 0) result.elements = static_cast<uint8_t>(bits / result.bits);
  return result;
}

bool loads_static(const Insn& insn, const ZydisDecodedInstruction& info,
                  std::span<const ZydisDecodedOperand> operands) {
  if (!insn.element_result.is_vector() || !insn.rip_relative || insn.access_count != 1)
    return false;
  const bool masked =
      info.avx.mask.reg != ZYDIS_REGISTER_NONE && info.avx.mask.reg != ZYDIS_REGISTER_K0;
  const bool reads_vectors =
      std::any_of(operands.begin() + 1, operands.end(), [](const ZydisDecodedOperand& op) {
        return op.type == ZYDIS_OPERAND_TYPE_REGISTER &&
               ZydisRegisterGetClass(op.reg.value) != ZYDIS_REGCLASS_MASK;
      });
  const bool to_upper_half =
      info.mnemonic == ZYDIS_MNEMONIC_MOVHPD || info.mnemonic == ZYDIS_MNEMONIC_MOVHPS;
  return !masked && !reads_vectors && !to_upper_half && !insn.accesses[0].write &&
         insn.accesses[0].size * 8u >= insn.element_result.bits &&
         !(operands[0].actions & ZYDIS_OPERAND_ACTION_READ) &&
         (info.meta.category == ZYDIS_CATEGORY_DATAXFER ||
          info.meta.category == ZYDIS_CATEGORY_BROADCAST);
}

}  // namespace shadowprof::decoder
