// SPDX-License-Identifier: MIT
//
// Facts about one guest instruction: all that the engines need to know to copy, patch or replace
// it, in our own terms. Zydis stays behind decode(); nobody else includes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/types.h"

namespace shadowprof::decoder {

inline constexpr uint8_t kMaxInsnBytes = 15;

// General-purpose registers by encoding: 0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi,
// 8..15 r8..r15.
using Gpr = uint8_t;
inline constexpr Gpr kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsp = 4, kRbp = 5, kRsi = 6, kRdi = 7,
                     kR8 = 8, kR9 = 9, kR10 = 10, kR11 = 11, kR12 = 12, kR13 = 13, kR14 = 14,
                     kR15 = 15;
inline constexpr Gpr kNoGpr = 0xff;
inline constexpr uint8_t kNoRex = 0xff;
inline constexpr Gpr kRip = 0xfe;  // as a base only

enum Flag : uint8_t { kCf = 1, kPf = 2, kAf = 4, kZf = 8, kSf = 16, kOf = 32 };

using GprMask = uint16_t;  // bit n: register n, in whole or part
constexpr GprMask gpr_bit(Gpr r) { return static_cast<GprMask>(1u << r); }

enum class InsnKind : uint8_t {
  ordinary,        // may be copied; execution goes on behind it
  conditional,     // jcc
  counter_branch,  // jcxz, jecxz, jrcxz, loop, loope, loopne: 8-bit displacement only
  jump,
  call,
  indirect_jump,
  indirect_call,
  ret,
  syscall,
  transaction,     // xbegin: may always abort
  native,          // only right at its own address: int3, undecodable bytes, far transfers
  unsupported,     // would be wrong under an engine (unsupported_reason says why)
};

// One memory access. Implicit ones (push, movs, xlat) are listed like explicit ones.
struct MemoryAccess {
  Gpr base = kNoGpr;   // kRip for rip-relative
  Gpr index = kNoGpr;  // kNoGpr also where the index is a vector register
  uint8_t scale = 0;
  uint8_t size = 0;    // bytes; 0 where it varies (xsave, rep)
  int64_t displacement = 0;
  bool read = false;
  bool write = false;
  bool implicit = false;
  bool vector_index = false;
  // Address and size tell which bytes are accessed. Not so: repetitions, masks, conditions, single
  // bits by a register's number.
  bool certain = true;
  bool hint = false;   // a prefetch: nothing is read
  bool operator==(const MemoryAccess&) const = default;
};

// Where an instruction names r15 in an explicit field. Patching the three low bits of the field to
// another register of r8-r14 changes the register and nothing else: the fourth bit, in a prefix, is
// one for all of them.
struct RegisterField {
  uint8_t byte = 0;      // offset within the instruction
  uint8_t shift = 0;     // of the 3-bit field
  bool inverted = false; // vvvv of VEX and EVEX
  bool operator==(const RegisterField&) const = default;
};

// By what an instruction loads, if its time may be taken: from before it until what it loaded is
// there. `none`: it loads nothing, or its time says nothing of memory (divisions, repetitions, the
// state of a whole unit).
enum class LoadKind : uint8_t {
  none,
  move,        // mov, movzx, movsx into a general-purpose register
  operand,     // of other integer instructions, those that write memory, too
  vector,      // a move into a vector register
  arithmetic,  // an operand of a vector or x87 instruction
  gather,      // all that it loads, as one
  atomic,      // lock, xchg
  stack,       // pop, leave, ret
  branch,      // where a jump or call through memory goes
};

// One side of a compare.
struct ComparedOperand {
  enum class Kind : uint8_t { reg, memory, immediate } kind = Kind::immediate;
  Gpr reg = kNoGpr;
  uint8_t shift = 0;  // 8 for ah, bh, ch, dh
  int64_t immediate = 0;
  bool operator==(const ComparedOperand&) const = default;
};

// What an instruction does to its memory operand, where that and a register or immediate tell what
// is there afterwards: a move, or an operation of integers without a lock.
struct StoredOperand {
  enum class How : uint8_t {
    none,
    move,        // the other operand is there then
    set_bits,    // or: its bits are set
    clear_bits,  // and: others than its bits are cleared
    change,      // add, sub, xor: nothing changes where it is 0
  } how = How::none;
  Gpr reg = kNoGpr;   // kNoGpr: the immediate
  uint8_t bits = 0;   // of memory: 8, 16, 32 or 64
  uint8_t shift = 0;  // 8 for ah, bh, ch, dh
  int64_t immediate = 0;
  bool operator==(const StoredOperand&) const = default;
};

// What a register holds afterwards, where that is what one held before plus a constant.
struct RegisterSum {
  Gpr to = kNoGpr;
  Gpr from = kNoGpr;
  int64_t addend = 0;
  bool operator==(const RegisterSum&) const = default;
};

// What an instruction leaves in a register that is no general-purpose one. Its value is the first
// element, as it is after the instruction: at most the low 64 bits of the register.
enum class ElementType : uint8_t { integer, f32, f64 };
struct ElementResult {
  enum class Register : uint8_t { none, vector, mask } kind = Register::none;
  uint8_t reg = 0;       // 0 to 31 of xmm, ymm or zmm; 0 to 7 of k
  ElementType type = ElementType::integer;
  uint8_t bits = 0;      // of an element: 8, 16, 32 or 64
  uint8_t elements = 0;  // of the register; 1 where the operation has only one

  bool is_vector() const { return kind == Register::vector; }
  bool is_mask() const { return kind == Register::mask; }
  bool operator==(const ElementResult&) const = default;
};

// Those of xmm0 to xmm3, which carry floating-point arguments: bit n for xmm n.
using VectorMask = uint8_t;
inline constexpr uint8_t kArgumentVectors = 4;

struct Insn {
  GuestAddr address;
  std::array<uint8_t, kMaxInsnBytes> bytes{};
  uint8_t length = 0;
  InsnKind kind = InsnKind::ordinary;

  GprMask reads = 0;   // explicit and implicit, address registers included
  GprMask writes = 0;
  Gpr result = kNoGpr;  // the general-purpose register that holds what it computed
  bool whole_result = false;  // all 64 bits of it are new
  uint8_t result_bits = 0;    // of the register that are the result: 8, 16, 32 or 64 of them
  uint8_t result_shift = 0;   // and where they begin: 8 for ah, bh, ch, dh
  bool constant_result = false;  // always the same, as the encoding alone tells
  bool loads_static = false;     // element_result is what the bytes at rip_target say, and no more
  // Another register that holds a result (mul, div, xchg; the implicit ones that are results and no
  // pointers or counters), and which bits of it.
  Gpr second_result = kNoGpr;
  uint8_t second_bits = 0;
  uint8_t second_shift = 0;
  // Where the first operand is a vector or mask register that is written, and no MMX or x87 one;
  // there is no `result` then.
  ElementResult element_result;

  // The stack pointer of pushes, pops and calls; additions of constants, and copies.
  RegisterSum sum;

  // cmp, which tells its operands' difference, and test, the bits that they have in common.
  uint8_t compared_bits = 0;  // 0: it is neither
  bool compares_common_bits = false;
  std::array<ComparedOperand, 2> compared{};
  StoredOperand stored;

  // Not read: a register that is combined with itself to zeros or ones, that gives nothing but the
  // upper part of a result, or that is saved to the stack as a whole.
  VectorMask vector_reads = 0;
  VectorMask vector_writes = 0;
  // The one of them whose low half is a double now, or a copy of something that may be one.
  uint8_t double_result = kNoGpr;

  // Arithmetic flags, as bits of Flag.
  uint8_t flags_read = 0;
  uint8_t flags_written = 0;  // certainly, whatever the operands are

  uint8_t access_count = 0;
  std::array<MemoryAccess, 2> accesses{};
  bool writes_memory = false;   // explicitly or through rdi; pushes do not count
  bool may_fault = true;        // false only for what certainly does not
  bool uses_gs = false;         // through the segment, or its base
  bool has_segment = false;     // an access is relative to the base of fs or gs
  bool pure_load = false;       // reads memory into a register and does nothing else
  LoadKind load = LoadKind::none;
  uint8_t load_access = 0;      // which of `accesses` that is
  bool prefetches = false;      // brings `accesses` nearer, without reading or writing
  bool asks_processor = false;      // cpuid
  bool asks_enabled_state = false;  // xgetbv
  bool reads_clock = false;         // rdtsc, rdtscp

  uint8_t r15_field_count = 0;
  std::array<RegisterField, 4> r15_fields{};

  bool lea64 = false;           // lea with a 64-bit destination
  uint8_t condition = 0;        // of jcc: the low four bits of its opcode
  uint8_t opcode_offset = 0;    // of one-byte opcodes with a modrm byte behind
  uint8_t immediate_bytes = 0;
  bool vex = false;             // VEX or EVEX encoded

  bool rip_relative = false;    // has a memory operand [rip + disp32]
  uint8_t modrm_offset = 0;     // valid when rip_relative
  uint8_t displacement_offset = 0;
  uint8_t rex_offset = kNoRex;  // of the REX prefix that counts: others may stand before it
  bool base_bit = false;        // the prefix bit that extends modrm.rm is set (rip ignores it)
  GuestAddr rip_target;

  GuestAddr branch_target;      // of direct branches
  uint16_t ret_pop_bytes = 0;   // of `ret imm16`
  const char* unsupported_reason = nullptr;

  GuestAddr next() const { return address + length; }
  bool uses(Gpr r) const { return ((reads | writes) & gpr_bit(r)) != 0; }
  // The registers whose value can be told after it, when those in `known` can be told before it.
  GprMask known_after(GprMask known) const {
    const bool tells = sum.to < 16 && (known & gpr_bit(sum.from)) != 0;
    return static_cast<GprMask>((known & ~writes) | (tells ? gpr_bit(sum.to) : 0));
  }
  // Ends a block.
  bool is_terminator() const { return kind != InsnKind::ordinary; }
  bool operator==(const Insn&) const = default;
};

// Decodes the instruction at the start of `bytes`, which lies at `address`. Bytes that are no
// instruction (or end too early) give kind native with length 0: the kernel decides what they do.
Insn decode(std::span<const uint8_t> bytes, GuestAddr address);
// The same in several times the time: decode() has a shorter way for what is most of all code.
Insn decode_by_zydis(std::span<const uint8_t> bytes, GuestAddr address);

// "mov rax, [rbx+0x8]", for reports and error messages.
std::string disassemble(std::span<const uint8_t> bytes, GuestAddr address);

}  // namespace shadowprof::decoder
