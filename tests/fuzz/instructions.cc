// SPDX-License-Identifier: MIT
#include "instructions.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <iterator>

namespace shadowprof::fuzz {
namespace {

using decoder::gpr_bit;
using decoder::Insn;
using decoder::InsnKind;
using decoder::kRsp;

// Privileged, or dependent on the processor's number, the clock, or what surrounds the program.
constexpr ZydisInstructionCategory kForbiddenCategories[] = {
    ZYDIS_CATEGORY_AMX_TILE,  ZYDIS_CATEGORY_AMD3DNOW, ZYDIS_CATEGORY_CLZERO,
    ZYDIS_CATEGORY_ENQCMD,    ZYDIS_CATEGORY_FMA4,     ZYDIS_CATEGORY_HRESET,
    ZYDIS_CATEGORY_INTERRUPT, ZYDIS_CATEGORY_IO,       ZYDIS_CATEGORY_IOSTRINGOP,
    ZYDIS_CATEGORY_KEYLOCKER, ZYDIS_CATEGORY_KNC,      ZYDIS_CATEGORY_KNCMASK,
    ZYDIS_CATEGORY_KNCSCALAR, ZYDIS_CATEGORY_MPX,      ZYDIS_CATEGORY_PADLOCK,
    ZYDIS_CATEGORY_PCONFIG,   ZYDIS_CATEGORY_PKU,      ZYDIS_CATEGORY_PT,
    ZYDIS_CATEGORY_RDPID,     ZYDIS_CATEGORY_RDPRU,    ZYDIS_CATEGORY_RDRAND,
    ZYDIS_CATEGORY_RDSEED,    ZYDIS_CATEGORY_RDWRFSGS, ZYDIS_CATEGORY_SEGOP,
    ZYDIS_CATEGORY_SGX,       ZYDIS_CATEGORY_SMAP,     ZYDIS_CATEGORY_SYSCALL,
    ZYDIS_CATEGORY_SYSRET,    ZYDIS_CATEGORY_SYSTEM,   ZYDIS_CATEGORY_TBM,
    ZYDIS_CATEGORY_TSX_LDTRK, ZYDIS_CATEGORY_UINTR,    ZYDIS_CATEGORY_VTX,
    ZYDIS_CATEGORY_WAITPKG,   ZYDIS_CATEGORY_XOP,      ZYDIS_CATEGORY_XSAVE,
    ZYDIS_CATEGORY_XSAVEOPT,
};
constexpr ZydisISAExt kForbiddenExtensions[] = {
    ZYDIS_ISA_EXT_AMD_INVLPGB, ZYDIS_ISA_EXT_CET,       ZYDIS_ISA_EXT_MCOMMIT,
    ZYDIS_ISA_EXT_MONITOR,     ZYDIS_ISA_EXT_MONITORX,  ZYDIS_ISA_EXT_RTM,
    ZYDIS_ISA_EXT_SMX,         ZYDIS_ISA_EXT_SNP,       ZYDIS_ISA_EXT_SVM,
    ZYDIS_ISA_EXT_TDX,         ZYDIS_ISA_EXT_RDTSCP,    ZYDIS_ISA_EXT_VMFUNC,
    ZYDIS_ISA_EXT_INVPCID,     ZYDIS_ISA_EXT_SERIALIZE,
};
// The save instructions store x87 instruction pointers; popf may set the trap or alignment flag
// (the generator emits its own, masked); the rest is as above.
constexpr ZydisMnemonic kForbiddenMnemonics[] = {
    ZYDIS_MNEMONIC_RDTSC,     ZYDIS_MNEMONIC_RDPMC,   ZYDIS_MNEMONIC_CPUID,
    ZYDIS_MNEMONIC_SMSW,      ZYDIS_MNEMONIC_STR,     ZYDIS_MNEMONIC_SLDT,
    ZYDIS_MNEMONIC_SGDT,      ZYDIS_MNEMONIC_SIDT,    ZYDIS_MNEMONIC_LSL,
    ZYDIS_MNEMONIC_LAR,       ZYDIS_MNEMONIC_VERR,    ZYDIS_MNEMONIC_VERW,
    ZYDIS_MNEMONIC_FNSTENV,   ZYDIS_MNEMONIC_FNSAVE,  ZYDIS_MNEMONIC_FXSAVE,
    ZYDIS_MNEMONIC_FXSAVE64,  ZYDIS_MNEMONIC_FXRSTOR, ZYDIS_MNEMONIC_FXRSTOR64,
    ZYDIS_MNEMONIC_FRSTOR,    ZYDIS_MNEMONIC_FLDENV,  ZYDIS_MNEMONIC_POPF,
    ZYDIS_MNEMONIC_POPFD,     ZYDIS_MNEMONIC_POPFQ,   ZYDIS_MNEMONIC_PUSHF,
    ZYDIS_MNEMONIC_PUSHFD,    ZYDIS_MNEMONIC_PUSHFQ,  ZYDIS_MNEMONIC_LEAVE,
    ZYDIS_MNEMONIC_ENTER,     ZYDIS_MNEMONIC_XGETBV,  ZYDIS_MNEMONIC_HLT,
    ZYDIS_MNEMONIC_CLI,       ZYDIS_MNEMONIC_STI,     ZYDIS_MNEMONIC_XLAT,
    ZYDIS_MNEMONIC_MOVDIR64B,
};

template <typename T, size_t N>
bool is_in(const T (&list)[N], T value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

bool uses_segment(const ZydisDecodedOperand& op) {
  if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) {
    const ZydisRegisterClass c = ZydisRegisterGetClass(op.reg.value);
    return c == ZYDIS_REGCLASS_SEGMENT || c == ZYDIS_REGCLASS_CONTROL ||
           c == ZYDIS_REGCLASS_DEBUG || c == ZYDIS_REGCLASS_TEST || c == ZYDIS_REGCLASS_TABLE;
  }
  if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) return false;
  return op.mem.segment == ZYDIS_REGISTER_FS || op.mem.segment == ZYDIS_REGISTER_GS;
}

bool is_bit_string(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_BT || m == ZYDIS_MNEMONIC_BTS || m == ZYDIS_MNEMONIC_BTR ||
         m == ZYDIS_MNEMONIC_BTC;
}

// Moves of the stack pointer that the generator could not follow.
bool moves_stack(const Insn& insn) {
  if (!(insn.writes & gpr_bit(kRsp))) return false;
  if (insn.result == kRsp) return true;
  return insn.access_count == 0 ||
         std::none_of(insn.accesses.begin(), insn.accesses.begin() + insn.access_count,
                      [](const decoder::MemoryAccess& a) { return a.implicit && a.base == kRsp; });
}

// An EVEX prefix has a bit that would extend a vector register in modrm.rm, and does nothing to a
// general-purpose one. Zen 4 reads the stack pointer so as it was before the last push or pop, or
// as it is, by chance: nothing can be compared with that.
bool reads_some_stack_pointer(const ZydisDecodedInstruction& info,
                              std::span<const ZydisDecodedOperand> operands,
                              std::span<const uint8_t> bytes) {
  constexpr uint8_t kNotExtended = 0x40;
  if (info.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX) return false;
  if (bytes[info.raw.evex.offset + 1u] & kNotExtended) return false;
  return std::ranges::any_of(operands, [](const ZydisDecodedOperand& op) {
    return op.type == ZYDIS_OPERAND_TYPE_REGISTER &&
           (op.reg.value == ZYDIS_REGISTER_ESP || op.reg.value == ZYDIS_REGISTER_RSP);
  });
}

bool is_allowed(const ZydisDecodedInstruction& info, std::span<const ZydisDecodedOperand> operands,
                const Insn& insn) {
  if (insn.kind != InsnKind::ordinary || moves_stack(insn)) return false;
  if (is_in(kForbiddenCategories, info.meta.category)) return false;
  if (is_in(kForbiddenExtensions, info.meta.isa_ext)) return false;
  if (is_in(kForbiddenMnemonics, info.mnemonic)) return false;
  if (std::any_of(operands.begin(), operands.end(), uses_segment)) return false;
  for (uint8_t i = 0; i < insn.access_count; i++) {
    const decoder::MemoryAccess& a = insn.accesses[i];
    if (a.vector_index || (a.base < 16 && a.base == a.index)) return false;
  }
  return true;
}

class Bytes {
 public:
  explicit Bytes(Random& random) : random_(random) {
    for (uint8_t& b : bytes_) b = random.byte();
  }
  void put(uint8_t b) {
    if (at_ < bytes_.size()) bytes_[at_++] = b;
  }
  // Field values of 7 with the extension bit are r15, which is what the translator replaces.
  void put_modrm() {
    uint8_t mod = random_.percent(45) ? 3 : static_cast<uint8_t>(random_.below(3));
    const uint8_t reg = field();
    const uint8_t rm = random_.percent(8) ? uint8_t{5} : field();
    if (rm == 5 && random_.percent(50)) mod = 0;
    put(static_cast<uint8_t>(mod << 6 | reg << 3 | rm));
    if (mod != 3 && rm == 4)
      put(static_cast<uint8_t>(random_.below(4) << 6 | field() << 3 | field()));
  }
  uint8_t field() {
    return random_.percent(25) ? uint8_t{7} : static_cast<uint8_t>(random_.below(8));
  }
  std::span<const uint8_t> all() const { return bytes_; }

 private:
  Random& random_;
  std::array<uint8_t, decoder::kMaxInsnBytes> bytes_{};
  size_t at_ = 0;
};

void put_legacy(Bytes& bytes, Random& random) {
  if (random.percent(15)) bytes.put(0x66);
  if (random.percent(16)) bytes.put(random.one_of({0xf2, 0xf3}));
  if (random.percent(4)) bytes.put(0xf0);
  if (random.percent(3)) bytes.put(0x67);
  if (random.percent(75)) bytes.put(static_cast<uint8_t>(0x40 | random.below(16)));
  const uint64_t map = random.below(100);
  if (map >= 50) bytes.put(0x0f);
  if (map >= 85) bytes.put(map < 95 ? 0x38 : 0x3a);
  bytes.put(random.byte());
  bytes.put_modrm();
}

void put_vex(Bytes& bytes, Random& random) {
  if (random.percent(20)) {
    bytes.put(0xc5);
    bytes.put(random.byte());
  } else {
    bytes.put(0xc4);
    bytes.put(static_cast<uint8_t>((random.byte() & 0xe0) | (1 + random.below(3))));
    const bool r15 = random.percent(25);  // vvvv, inverted
    bytes.put(static_cast<uint8_t>((random.byte() & (r15 ? 0x87 : 0xff))));
  }
  // The corner of map 2 that works on general-purpose registers.
  bytes.put(random.percent(15) ? random.one_of({0xf0, 0xf2, 0xf3, 0xf5, 0xf6, 0xf7})
                               : random.byte());
  bytes.put_modrm();
}

void put_evex(Bytes& bytes, Random& random) {
  bytes.put(0x62);
  bytes.put(static_cast<uint8_t>((random.byte() & 0xf0) | (1 + random.below(3))));
  bytes.put(static_cast<uint8_t>(random.byte() | 0x04));
  uint8_t last = random.byte();
  if (random.percent(60)) last &= 0x6f;  // neither zeroing nor broadcast, which few forms have
  bytes.put(last);
  bytes.put(random.byte());
  bytes.put_modrm();
}

}  // namespace

std::optional<RandomInsn> random_insn(Random& random) {
  Bytes bytes(random);
  const uint64_t encoding = random.below(100);
  if (encoding < 72) {
    put_legacy(bytes, random);
  } else if (encoding < 87) {
    put_vex(bytes, random);
  } else {
    put_evex(bytes, random);
  }
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisDecodedInstruction info;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes.all().data(), bytes.all().size(), &info,
                                           operands))) {
    return std::nullopt;
  }
  RandomInsn made;
  made.insn = decoder::decode(bytes.all(), GuestAddr());
  const std::span<const ZydisDecodedOperand> all(operands, info.operand_count);
  if (!is_allowed(info, all, made.insn) || reads_some_stack_pointer(info, all, bytes.all()))
    return std::nullopt;
  made.displacement_offset = info.raw.disp.offset;
  made.displacement_bits = info.raw.disp.size;
  made.address_bits = info.address_width;
  made.bit_string = is_bit_string(info.mnemonic) && made.insn.access_count > 0 &&
                    operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
  made.repeated = (info.attributes &
                   (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) != 0;
  return made;
}

}  // namespace shadowprof::fuzz
