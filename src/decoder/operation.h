// SPDX-License-Identifier: MIT
//
// What an instruction computes, for an engine that executes it itself: the operation, its operands
// and their widths. insn.h says what surrounds it (flags, blocks, accesses).
//
// Only the operations that matter for speed, and those that would touch the executing process
// instead of the guest, have a name. Everything else is a *cell*: it is executed as it is, but with
// its memory operand addressed by one register that the executor has set to where the bytes are.
// encode_cell() gives those bytes. What can be neither has an `unsupported` reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "decoder/insn.h"

namespace shadowprof::decoder {

enum class Code : uint8_t {
  cell,
  nop,  // hints and prefetches: neither registers nor memory change, and no address faults
  mov,
  movzx,
  movsx,
  lea,
  add,
  or_,
  adc,
  sbb,
  and_,
  sub,
  xor_,
  cmp,
  test,
  inc,
  dec,
  neg,
  not_,
  shl,
  shr,
  sar,
  rol,
  ror,
  imul,  // two or three operands; the first is written
  cmov,
  setcc,
  xchg,
  cqo,  // cwd, cdq, cqo
  push,
  pop,
  leave,
  pushf,
  popf,
  cld,
  std_,
  bit,        // bt, bts, btr, btc with a register as bit offset and memory
  read_base,  // rdfsbase, rdgsbase
  write_base,
  movs,
  stos,
  lods,
  scas,
  cmps,
  xlat,
  target,  // where an indirect jump or call gets its target from
  unsupported,
};

struct Operand {
  enum class Kind : uint8_t { none, reg, memory, immediate };
  Kind kind = Kind::none;
  Gpr reg = kNoGpr;
  bool high = false;  // ah, ch, dh, bh
  uint8_t bits = 0;
  bool operator==(const Operand&) const = default;
};

enum class Segment : uint8_t { none, fs, gs };
enum class Repeat : uint8_t { none, repe, repne };  // rep is repe

struct Operation {
  Code code = Code::cell;
  uint8_t bits = 0;     // of the operation
  uint8_t variant = 0;  // condition of cmov and setcc; bit: 0 bt, 1 bts, 2 btr, 3 btc
  Repeat repeat = Repeat::none;
  std::array<Operand, 3> operands{};
  int64_t immediate = 0;  // sign-extended to 64 bits
  const char* unsupported_reason = nullptr;

  // The explicit memory operand, also lea's.
  bool has_memory = false;
  Gpr base = kNoGpr;
  Gpr index = kNoGpr;
  uint8_t scale_shift = 0;
  int64_t displacement = 0;  // absolute where the operand is relative to rip
  Segment segment = Segment::none;
  bool address32 = false;  // the address is cut to 32 bits

  // For cells.
  GprMask loads = 0;   // registers it names as data
  GprMask stores = 0;  // of those, written
  bool uses_flags = false;
  bool uses_vectors = false;  // x87, MMX, vector, mask registers or their control words
  bool reads_memory = false;
  bool writes_memory = false;
  uint16_t memory_bytes = 0;  // 0 where it is the size of the processor's XSAVE area
  // The same instruction executed twice gives different results (time stamps, random numbers).
  bool nondeterministic = false;
  bool operator==(const Operation&) const = default;
};

// `insn` must have been decoded (its length is not 0).
Operation decode_operation(const Insn& insn);
// The same in several times the time.
Operation decode_operation_by_zydis(const Insn& insn);
// The same, as a cell whatever it is.
Operation describe_as_cell(const Insn& insn);

// The bytes of a cell whose memory operand is [pointer]. `pointer` is one of rax, rcx, rdx, rbx,
// rsi, rdi that `operation` does not load. Without a memory operand: the instruction as it is.
std::string encode_cell(const Insn& insn, Gpr pointer);

}  // namespace shadowprof::decoder
