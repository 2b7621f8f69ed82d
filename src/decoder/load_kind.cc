// SPDX-License-Identifier: MIT
#include "decoder/load_kind.h"

namespace shadowprof::decoder {
namespace {

// Takes its own time beside the load's, and more of it than a load from a near cache.
bool is_slow_itself(const ZydisDecodedInstruction& info) {
  switch (info.mnemonic) {
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
    case ZYDIS_MNEMONIC_DIVSS:
    case ZYDIS_MNEMONIC_DIVSD:
    case ZYDIS_MNEMONIC_DIVPS:
    case ZYDIS_MNEMONIC_DIVPD:
    case ZYDIS_MNEMONIC_VDIVSS:
    case ZYDIS_MNEMONIC_VDIVSD:
    case ZYDIS_MNEMONIC_VDIVPS:
    case ZYDIS_MNEMONIC_VDIVPD:
    case ZYDIS_MNEMONIC_SQRTSS:
    case ZYDIS_MNEMONIC_SQRTSD:
    case ZYDIS_MNEMONIC_SQRTPS:
    case ZYDIS_MNEMONIC_SQRTPD:
    case ZYDIS_MNEMONIC_VSQRTSS:
    case ZYDIS_MNEMONIC_VSQRTSD:
    case ZYDIS_MNEMONIC_VSQRTPS:
    case ZYDIS_MNEMONIC_VSQRTPD:
    case ZYDIS_MNEMONIC_FDIV:
    case ZYDIS_MNEMONIC_FDIVR:
    case ZYDIS_MNEMONIC_FIDIV:
    case ZYDIS_MNEMONIC_FIDIVR:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
    case ZYDIS_MNEMONIC_FLDCW:
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_FRSTOR:
    case ZYDIS_MNEMONIC_FBLD:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
      return true;
    default:
      return false;
  }
}

LoadKind kind_of_vector_load(const ZydisDecodedInstruction& info) {
  switch (info.meta.category) {
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_BROADCAST:
      return LoadKind::vector;
    case ZYDIS_CATEGORY_SSE:
    case ZYDIS_CATEGORY_AVX:
    case ZYDIS_CATEGORY_AVX2:
    case ZYDIS_CATEGORY_AVX512:
    case ZYDIS_CATEGORY_VFMA:
    case ZYDIS_CATEGORY_LOGICAL_FP:
    case ZYDIS_CATEGORY_CONVERT:
    case ZYDIS_CATEGORY_MMX:
    case ZYDIS_CATEGORY_X87_ALU:
      return LoadKind::arithmetic;
    default:
      return LoadKind::none;
  }
}

}  // namespace

LoadKind kind_of_load(const Insn& insn, const ZydisDecodedInstruction& info) {
  const MemoryAccess& a = insn.accesses[insn.load_access];
  if (insn.pure_load) return LoadKind::move;
  if (info.mnemonic == ZYDIS_MNEMONIC_LEAVE) return LoadKind::stack;
  if (info.mnemonic == ZYDIS_MNEMONIC_POP)
    return insn.access_count == 1 ? LoadKind::stack : LoadKind::none;
  if (a.implicit || is_slow_itself(info)) return LoadKind::none;
  if (a.vector_index) return a.write ? LoadKind::none : LoadKind::gather;
  const bool is_locked = (info.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0;
  if (is_locked || info.mnemonic == ZYDIS_MNEMONIC_XCHG) return LoadKind::atomic;
  switch (info.meta.category) {
    case ZYDIS_CATEGORY_BINARY:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_CMOV:
    case ZYDIS_CATEGORY_SHIFT:
    case ZYDIS_CATEGORY_ROTATE:
    case ZYDIS_CATEGORY_BITBYTE:
    case ZYDIS_CATEGORY_BMI1:
    case ZYDIS_CATEGORY_BMI2:
    case ZYDIS_CATEGORY_ADOX_ADCX:
    case ZYDIS_CATEGORY_LZCNT:
    case ZYDIS_CATEGORY_SEMAPHORE:
    case ZYDIS_CATEGORY_PUSH:
      return LoadKind::operand;
    default:
      return kind_of_vector_load(info);
  }
}

}  // namespace shadowprof::decoder
