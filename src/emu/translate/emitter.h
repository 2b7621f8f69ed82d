// SPDX-License-Identifier: MIT
//
// Writes machine code. Every method is one instruction, its mnemonic beside it; none of them
// changes a flag, except where it says so. Registers are numbered as in decoder/insn.h.
#pragma once

#include <cpuid.h>

#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/code_writer.h"
#include "decoder/insn.h"
#include "emu/translate/slot_layout.h"

namespace shadowprof::emu {

class Emitter : public CodeWriter {
 public:
  // Code is written to `out`; out[0] will be executed at guest address `base`. `recording` tells
  // how the state page is addressed: gs:[field], or [r15 + field].
  Emitter(std::span<uint8_t> out, uint64_t base, Recording recording)
      : CodeWriter(out), base_(base), through_r15_(recording == Recording::counts) {}

  uint64_t here() const { return base_ + offset(); }
  bool reachable(uint64_t target) const {
    const auto distance = static_cast<int64_t>(target - here());
    return distance > INT32_MIN + 256 &&
           distance < INT32_MAX - 256;  // from an instruction soon, too
  }

  void int3() { byte(0xcc); }                                    // int3
  void jmp_rel32(uint64_t target) {                              // jmp target
    byte(0xe9);
    u32(relative(target, 4));
  }
  uint32_t jmp_forward() {
    byte(0xe9);
    u32(0);
    return offset() - 4;
  }
  uint32_t jrcxz_forward() {                                     // jrcxz rel8
    byte(0xe3);
    byte(0);
    return offset() - 1;
  }
  void jrcxz_back(uint64_t target) {                             // jrcxz rel8
    byte(0xe3);
    const auto distance = static_cast<int64_t>(target - (here() + 1));
    SP_CHECK(distance >= -128 && distance <= 127, "jrcxz over {} bytes", distance);
    byte(static_cast<uint8_t>(distance));
  }
  void land_rel8(uint32_t displacement_at) {
    const uint32_t distance = offset() - (displacement_at + 1);
    SP_CHECK(distance <= 127, "short branch over {} bytes", distance);
    patch_u8(displacement_at, static_cast<uint8_t>(distance));
  }

  void store_state(size_t field, decoder::Gpr r) {
    state_access(0x89, field, r);
  }                                                                                // mov [field], r
  void load_state(decoder::Gpr r, size_t field) { state_access(0x8b, field, r); }  // mov r, [field]
  void load_low_half_ecx(size_t field) {                         // mov ecx, [field]
    index_access({0x41, 0x8b, 0x8f}, {0x65, 0x8b, 0x0c, 0x25}, field);
  }
  void load_high_half_ecx(size_t field) { load_low_half_ecx(field + 4); }
  void store_x87_environment() {                                 // fnstenv [x87_environment]
    index_access({0x41, 0xd9, 0xb7}, {0x65, 0xd9, 0x34, 0x25},
                 offsetof(StatePage, x87_environment));
  }
  void load_x87_control() {                                      // fldcw [x87_environment]
    index_access({0x41, 0xd9, 0xaf}, {0x65, 0xd9, 0x2c, 0x25},
                 offsetof(StatePage, x87_environment));
  }
  void load_kind_rcx(size_t table) {                             // movzx ecx, byte [rcx + table]
    if (through_r15_) {
      bytes({0x41, 0x0f, 0xb6, 0x8c, 0x0f});
    } else {
      bytes({0x65, 0x0f, 0xb6, 0x89});
    }
    u32(static_cast<uint32_t>(table));
  }
  void load_word_rcx(size_t table) {  // mov ecx, [rcx*4 + table]
    index_access({0x41, 0x8b, 0x8c, 0x8f}, {0x65, 0x8b, 0x0c, 0x8d}, table);
  }
  void count_call_rcx(size_t table) {                            // r11 = ++[rcx*8 + table]
    index_access({0x4d, 0x8b, 0x9c, 0xcf}, {0x65, 0x4c, 0x8b, 0x1c, 0xcd}, table);  // mov r11, [..]
    bytes({0x4d, 0x8d, 0x5b, 0x01});  // lea r11, [r11+1]
    index_access({0x4d, 0x89, 0x9c, 0xcf}, {0x65, 0x4c, 0x89, 0x1c, 0xcd}, table);  // mov [..], r11
  }
  void jmp_table_rdx(size_t table) {                             // jmp [rdx*8 + table]
    index_access({0x41, 0xff, 0xa4, 0xd7}, {0x65, 0xff, 0x24, 0xd5}, table);
  }
  void inc_state(size_t field) {                                 // inc qword [field]: flags!
    index_access({0x49, 0xff, 0x87}, {0x65, 0x48, 0xff, 0x04, 0x25}, field);
  }
  void dec_state(size_t field) {                                 // dec qword [field]: flags!
    index_access({0x49, 0xff, 0x8f}, {0x65, 0x48, 0xff, 0x0c, 0x25}, field);
  }
  void jmp_state(size_t field) {                                 // jmp [field]
    index_access({0x41, 0xff, 0xa7}, {0x65, 0xff, 0x24, 0x25}, field);
  }
  void store_site(size_t field, uint32_t site) {                 // mov qword [field], imm32
    SP_CHECK(site <= INT32_MAX, "a site that an immediate cannot hold");
    index_access({0x49, 0xc7, 0x87}, {0x65, 0x48, 0xc7, 0x04, 0x25}, field);
    u32(site);
  }

  void mov_imm(decoder::Gpr r, uint64_t v) {
    if (v <= UINT32_MAX) {                                       // mov r32, imm32
      if (r >= 8) byte(0x41);
      byte(static_cast<uint8_t>(0xb8 | (r & 7)));
      u32(static_cast<uint32_t>(v));
    } else {                                                     // movabs r, imm64
      byte(static_cast<uint8_t>(0x48 | (r >> 3)));
      byte(static_cast<uint8_t>(0xb8 | (r & 7)));
      u64(v);
    }
  }
  void mov(decoder::Gpr to, decoder::Gpr from) {                 // mov to, from
    byte(static_cast<uint8_t>(0x48 | (from >> 3) << 2 | (to >> 3)));
    byte(0x89);
    byte(static_cast<uint8_t>(0xc0 | (from & 7) << 3 | (to & 7)));
  }
  void add_rdx_to_rcx() { bytes({0x48, 0x8d, 0x0c, 0x11}); }   // lea rcx, [rcx+rdx]
  void add_imm_to_rcx(int32_t v) {                               // lea rcx, [rcx+v]
    if (v >= -128 && v <= 127) return bytes({0x48, 0x8d, 0x49, static_cast<uint8_t>(v)});
    bytes({0x48, 0x8d, 0x89});
    u32(static_cast<uint32_t>(v));
  }
  void add_to_rcx(uint64_t v) {                                  // rcx += v; rdx is lost
    const auto as_signed = static_cast<int64_t>(v);
    if (as_signed >= INT32_MIN && as_signed <= INT32_MAX) {
      add_imm_to_rcx(static_cast<int32_t>(as_signed));
    } else {
      mov_imm(decoder::kRdx, v);
      add_rdx_to_rcx();
    }
  }
  // `loop`, where that is a simple instruction; Intel's take seven micro-ops for it.
  void decrement_rcx_and_jump_unless_zero(uint64_t target) {
    if (loop_is_simple()) {
      byte(0xe2);                                                // loop rel8
      const auto distance = static_cast<int64_t>(target - (here() + 1));
      SP_CHECK(distance >= -128 && distance <= 127, "loop over {} bytes", distance);
      byte(static_cast<uint8_t>(distance));
    } else {
      add_imm_to_rcx(-1);
      const uint32_t is_zero = jrcxz_forward();
      jmp_rel32(target);
      land_rel8(is_zero);
    }
  }
  void load_rcx_table_rdx() { bytes({0x48, 0x8b, 0x0c, 0xd1}); }      // mov rcx, [rcx+rdx*8]
  void add_rdx_times_8_to_rcx() { bytes({0x48, 0x8d, 0x0c, 0xd1}); }  // lea rcx, [rcx+rdx*8]
  void not_rdx() { bytes({0x48, 0xf7, 0xd2}); }                       // not rdx (no flags)
  void add_rdx_times_8_plus_8_to_rcx() {                         // lea rcx, [rcx+rdx*8+8]
    bytes({0x48, 0x8d, 0x4c, 0xd1, 0x08});
  }
  void jmp_rcx() { bytes({0xff, 0xe1}); }                      // jmp rcx
  void load_through_rcx(decoder::Gpr r, size_t field) {          // mov r, [rcx+field]
    bytes({static_cast<uint8_t>(0x48 | (r >> 3) << 2), 0x8b,
           static_cast<uint8_t>(0x81 | (r & 7) << 3)});
    u32(static_cast<uint32_t>(field));
  }
  void rdgsbase_rcx() { bytes({0xf3, 0x48, 0x0f, 0xae, 0xc9}); }  // rdgsbase rcx
  void wrgsbase_r15() { bytes({0xf3, 0x49, 0x0f, 0xae, 0xdf}); }  // wrgsbase r15
  void jmp_rdx() { bytes({0xff, 0xe2}); }                      // jmp rdx
  void lea_rcx_rip(uint64_t address) {                           // lea rcx, [rip+disp32]
    bytes({0x48, 0x8d, 0x0d});
    u32(relative(address, 4));
  }
  void store_log_site(size_t log) {                              // mov [rcx*8+log], edx
    index_access({0x41, 0x89, 0x94, 0xcf}, {0x65, 0x89, 0x14, 0xcd}, log);
  }
  void store_log_block(size_t log, uint32_t block) {             // mov dword [rcx*8+log+4], imm32
    index_access({0x41, 0xc7, 0x84, 0xcf}, {0x65, 0xc7, 0x04, 0xcd}, log + 4);
    u32(block);
  }
  void movzx_edx_cx() { bytes({0x0f, 0xb7, 0xd1}); }           // movzx edx, cx
  void movzx_ecx_cl() { bytes({0x0f, 0xb6, 0xc9}); }           // movzx ecx, cl
  void movzx_ecx_ax() { bytes({0x0f, 0xb7, 0xc8}); }           // movzx ecx, ax
  void pop_rcx() { byte(0x59); }                                 // pop rcx
  void syscall() { bytes({0x0f, 0x05}); }                      // syscall
  void lfence() { bytes({0x0f, 0xae, 0xe8}); }                 // lfence
  void mfence() { bytes({0x0f, 0xae, 0xf0}); }                 // mfence
  void rdtsc() { bytes({0x0f, 0x31}); }                        // rdtsc

  void add_to_rsp(uint32_t v) {                                  // lea rsp, [rsp+v]
    bytes({0x48, 0x8d, 0xa4, 0x24});
    u32(v);
  }
  void push_imm32(int32_t v) {                                   // push imm32 (sign-extended)
    byte(0x68);
    u32(static_cast<uint32_t>(v));
  }
  uint32_t push_rip_forward() {                                  // push [rip+disp32]
    bytes({0xff, 0x35});
    u32(0);
    return offset() - 4;
  }

  // The trace cursor, r15.
  void store_cursor_imm32(uint32_t v) {                          // mov dword [r15], imm32
    bytes({0x41, 0xc7, 0x07});
    u32(v);
  }
  void advance_cursor(uint32_t n) {                              // lea r15, [r15+n]
    if (n <= 127) {
      bytes({0x4d, 0x8d, 0x7f, static_cast<uint8_t>(n)});
    } else {
      bytes({0x4d, 0x8d, 0xbf});
      u32(n);
    }
  }
  void store_cursor_reg(uint32_t displacement, decoder::Gpr r) {  // mov [r15+displacement], r
    cursor_store(displacement, r, 0x49);
  }
  void load_cursor_reg(decoder::Gpr r, uint32_t displacement) {   // mov r, [r15+displacement]
    SP_CHECK(displacement <= 127, "a spill beyond a one-byte displacement");
    bytes({static_cast<uint8_t>(0x49 | (r >> 3) << 2), 0x8b,
           static_cast<uint8_t>(0x47 | (r & 7) << 3), static_cast<uint8_t>(displacement)});
  }
  // The guest's rcx and rdx around an indirect branch. `record_bytes`: how far the cursor will have
  // moved on when they are taken back.
  void spill_branch_registers(uint32_t record_bytes) {
    if (through_r15_) {
      store_state(offsetof(StatePage, spill_rcx), decoder::kRcx);
      store_state(offsetof(StatePage, spill_rdx), decoder::kRdx);
    } else {
      store_cursor_reg(record_bytes + kCursorSpillRcx, decoder::kRcx);
      store_cursor_reg(record_bytes + kCursorSpillRdx, decoder::kRdx);
    }
  }
  // rcx alone, for a few instructions that do not move the cursor.
  void spill_rcx() {
    if (through_r15_) {
      store_state(offsetof(StatePage, spill_rcx), decoder::kRcx);
    } else {
      store_cursor_reg(kCursorSpillRcx, decoder::kRcx);
    }
  }
  void restore_rcx() {
    if (through_r15_) {
      load_state(decoder::kRcx, offsetof(StatePage, spill_rcx));
    } else {
      load_cursor_reg(decoder::kRcx, kCursorSpillRcx);
    }
  }
  void restore_branch_registers() {
    restore_rcx();
    if (through_r15_) {
      load_state(decoder::kRdx, offsetof(StatePage, spill_rdx));
    } else {
      load_cursor_reg(decoder::kRdx, kCursorSpillRdx);
    }
  }
  // movq or vmovq [r15+displacement], xmm: in the encoding of the code around it, since changing
  // from one to the other may be slow. Registers from 16 on are in EVEX code only.
  void store_cursor_xmm(uint32_t displacement, uint8_t xmm, bool vex) {
    const bool high = (xmm & 8) != 0;
    if (xmm >= 16) {
      bytes({0x62, static_cast<uint8_t>(high ? 0x41 : 0xc1), 0xfd, 0x08, 0xd6});
    } else if (vex) {
      bytes({0xc4, static_cast<uint8_t>(high ? 0x41 : 0xc1), 0x79, 0xd6});
    } else {
      bytes({0x66, static_cast<uint8_t>(high ? 0x45 : 0x41), 0x0f, 0xd6});
    }
    byte(static_cast<uint8_t>(0x87 | (xmm & 7) << 3));
    u32(displacement);
  }
  void store_cursor_mask(uint32_t displacement, uint8_t mask) {  // kmovq [r15+displacement], k
    bytes({0xc4, 0xc1, 0xf8, 0x91, static_cast<uint8_t>(0x87 | mask << 3)});
    u32(displacement);
  }
  void store_cursor_eax(uint32_t displacement) {                 // mov [r15+displacement], eax
    cursor_store(displacement, decoder::kRax, 0x41);
  }

 private:
  static bool loop_is_simple() {
    static const bool amd = [] {
      unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
      __get_cpuid(0, &eax, &ebx, &ecx, &edx);
      return ebx == signature_AMD_ebx;
    }();
    return amd;
  }
  uint32_t relative(uint64_t target, uint32_t field_bytes) const {
    const auto distance = static_cast<int64_t>(target - (here() + field_bytes));
    SP_CHECK(distance >= INT32_MIN && distance <= INT32_MAX, "branch out of reach");
    return static_cast<uint32_t>(distance);
  }
  void state_access(uint8_t opcode, size_t field, decoder::Gpr r) {
    if (!through_r15_) {
      byte(0x65);
      byte(static_cast<uint8_t>(0x48 | (r >> 3) << 2));
      byte(opcode);
      byte(static_cast<uint8_t>(0x04 | (r & 7) << 3));
      byte(0x25);
      u32(static_cast<uint32_t>(field));
      return;
    }
    byte(static_cast<uint8_t>(0x49 | (r >> 3) << 2));
    byte(opcode);
    if (field <= 127) {
      byte(static_cast<uint8_t>(0x47 | (r & 7) << 3));
      byte(static_cast<uint8_t>(field));
    } else {
      byte(static_cast<uint8_t>(0x87 | (r & 7) << 3));
      u32(static_cast<uint32_t>(field));
    }
  }
  void index_access(std::initializer_list<uint8_t> through_r15,
                    std::initializer_list<uint8_t> through_gs, size_t table) {
    bytes(through_r15_ ? through_r15 : through_gs);
    u32(static_cast<uint32_t>(table));
  }
  void cursor_store(uint32_t displacement, decoder::Gpr r, uint8_t rex) {
    byte(static_cast<uint8_t>(rex | (r >> 3) << 2));
    byte(0x89);
    if (displacement <= 127) {
      byte(static_cast<uint8_t>(0x47 | (r & 7) << 3));
      byte(static_cast<uint8_t>(displacement));
    } else {
      byte(static_cast<uint8_t>(0x87 | (r & 7) << 3));
      u32(displacement);
    }
  }

  uint64_t base_;
  bool through_r15_;
};

}  // namespace shadowprof::emu
