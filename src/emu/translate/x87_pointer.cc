// SPDX-License-Identifier: MIT
#include "emu/translate/x87_pointer.h"

#include <bit>
#include <cstring>
#include <vector>

namespace shadowprof::emu {
namespace {

using decoder::Insn;
using decoder::kRcx;

constexpr StoredPointer kEnvironment{12, 4};
constexpr StoredPointer kSmallEnvironment{6, 2};
constexpr StoredPointer kArea{8, 4};
constexpr StoredPointer kWideArea{8, 8};

bool has_prefix(const Insn& insn, uint8_t prefix) {
  for (uint8_t i = 0; i < insn.opcode_offset; i++) {
    if (insn.bytes[i] == prefix) return true;
  }
  return false;
}

// lea rcx, [operand], without its segment.
void emit_operand_address(Emitter& e, const Insn& insn, std::span<const uint8_t> code) {
  if (insn.rip_relative) return e.mov_imm(kRcx, insn.rip_target.value);
  if (has_prefix(insn, 0x67)) e.byte(0x67);  // 32-bit address
  const uint8_t rex = insn.rex_offset == decoder::kNoRex ? uint8_t{0} : code[insn.rex_offset];
  e.byte(static_cast<uint8_t>(0x48 | (rex & 0x03)));
  e.byte(0x8d);
  const size_t modrm_at = insn.opcode_offset + 1u;
  e.byte(static_cast<uint8_t>((code[modrm_at] & 0xc7) | kRcx << 3));
  for (size_t i = modrm_at + 1; i < insn.length; i++) e.byte(code[i]);
}

// The whole address is there.
bool is_in_state_page(StoredPointer stored) {
  return stored.bytes == 2;
}

}  // namespace

uint32_t whole_pointer(const StatePage& state) {
  uint32_t low = 0;
  std::memcpy(&low, &state.x87_environment[kEnvironment.offset], sizeof low);
  return low;
}

std::optional<StoredPointer> stored_pointer(const Insn& insn) {
  if (!insn.writes_memory || insn.vex) return std::nullopt;
  const uint8_t opcode = insn.bytes[insn.opcode_offset];
  const uint8_t modrm = insn.bytes[insn.opcode_offset + 1u];
  const unsigned extension = modrm >> 3 & 7u;
  if (modrm >= 0xc0) return std::nullopt;
  const bool wide = insn.rex_offset != decoder::kNoRex && (insn.bytes[insn.rex_offset] & 0x08) != 0;
  const bool two_bytes = insn.opcode_offset > 0 && insn.bytes[insn.opcode_offset - 1u] == 0x0f;
  if (!two_bytes) {
    if ((opcode != 0xd9 && opcode != 0xdd) || extension != 6) return std::nullopt;
    StoredPointer stored = has_prefix(insn, 0x66) && !wide ? kSmallEnvironment : kEnvironment;
    stored.clears = opcode == 0xdd;  // fnsave
    return stored;
  }
  if (has_prefix(insn, 0x66)) return std::nullopt;
  const bool fxsave_or_xsave = opcode == 0xae && (extension == 0 || extension == 4);
  const bool xsaveopt = opcode == 0xae && extension == 6;
  const bool xsavec_or_xsaves = opcode == 0xc7 && (extension == 4 || extension == 5);
  if (!fxsave_or_xsave && !xsaveopt && !xsavec_or_xsaves) return std::nullopt;
  if (has_prefix(insn, 0xf2) || has_prefix(insn, 0xf3)) return std::nullopt;
  return wide ? kWideArea : kArea;
}

void emit_before_pointer(Emitter& e, StoredPointer stored) {
  if (!is_in_state_page(stored) || !stored.clears) return;
  e.store_x87_environment();
  e.load_x87_control();
}

// The low halves of addresses are compared, without flags: less the cache's base, and shifted so
// that what is left above the low half is zero for addresses in the cache.
uint32_t emit_pointer_check(Emitter& e, const Insn& insn, std::span<const uint8_t> code,
                            StoredPointer stored, CacheRange cache) {
  constexpr size_t kSpill = offsetof(StatePage, spill_rcx);
  if (is_in_state_page(stored) && !stored.clears) e.store_x87_environment();
  e.store_state(kSpill, kRcx);
  if (is_in_state_page(stored)) {
    e.load_low_half_ecx(offsetof(StatePage, x87_environment) + kEnvironment.offset);
  } else {
    emit_operand_address(e, insn, code);
    for (const uint8_t segment : {uint8_t{0x64}, uint8_t{0x65}}) {
      if (has_prefix(insn, segment)) e.byte(segment);
    }
    e.bytes({0x8b, 0x49, stored.offset});  // mov ecx, [rcx+offset]
  }
  e.bytes({0x8d, 0x89});  // lea ecx, [rcx-base]
  e.u32(static_cast<uint32_t>(-cache.base));
  for (int shift = 32 - std::countr_zero(std::bit_ceil(cache.size)); shift > 0;) {
    const int by = shift < 3 ? shift : 3;
    e.bytes({0x48, 0x8d, 0x0c, static_cast<uint8_t>(by << 6 | 0x0d)});  // lea rcx, [rcx*(1<<by)]
    e.u32(0);
    shift -= by;
  }
  e.store_state(kAddressField, kRcx);
  e.load_high_half_ecx(kAddressField);
  const uint32_t is_inside = e.jrcxz_forward();
  e.load_state(kRcx, kSpill);
  const uint32_t over = e.jmp_forward();
  e.land_rel8(is_inside);
  e.load_state(kRcx, kSpill);
  return over;
}

}  // namespace shadowprof::emu
