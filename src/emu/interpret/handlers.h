// SPDX-License-Identifier: MIT
//
// Which handler does what. Null: there is none for such operands; the caller makes it a cell.
#pragma once

#include <cstdint>

#include "decoder/operation.h"
#include "emu/interpret/state.h"

namespace shadowprof::emu {

// Where the two operands of an operation are: destination first.
enum class Form : uint8_t {
  reg_reg,
  reg_imm,
  reg_mem,
  mem_reg,
  mem_imm,
  reg,  // one operand
  mem,
};

Handler alu_handler(decoder::Code code, uint8_t bits, Form form, bool flags);
// By an immediate, or cl. `extra`: a rotate by an immediate that leaves OF alone.
Handler shift_handler(decoder::Code code, uint8_t bits, Form form);
Handler move_handler(uint8_t bits, Form form);
// movzx and movsx.
Handler extend_handler(bool is_signed, uint8_t from_bits, uint8_t to_bits, Form form);
Handler cmov_handler(uint8_t condition, uint8_t bits, Form form);
Handler setcc_handler(uint8_t condition, Form form);
Handler branch_handler(uint8_t condition);  // jcc
Handler bit_handler(uint8_t variant, uint8_t bits);
Handler string_handler(decoder::Code code, uint8_t bits, decoder::Repeat repeat);
Handler exchange_handler(uint8_t bits, Form form);

// One function for each of these.
extern const Handler kNop, kLea64, kLea32, kLea16, kPushReg, kPushImm, kPushMem, kPopReg, kPopMem,
    kLeave, kPushf, kPopf, kSetDirection, kCwd, kCdq, kCqo, kXlat, kReadBase64, kReadBase32,
    kWriteBase64, kWriteBase32;
// Puts an address of other parts than base, index and displacement into kScratchSlot: the base of a
// segment (slot offset `src`) added to it, after it was cut to 32 bits (`extra`).
extern const Handler kAddress;
// A Cell.
extern const Handler kCell;
// Register `src` into the record, `displacement` bytes behind the cursor.
extern const Handler kCapture;
// The low 64 bits of a vector register, and a mask register, likewise.
Handler capture_vector_handler(uint8_t number);
Handler capture_mask_handler(uint8_t number);
// What is in memory, `immediate` bytes behind the cursor.
Handler capture_memory_handler(uint8_t bits);
// What comes before an indirect exit: State::target, and the stack. `immediate`: the return
// address.
extern const Handler kRet, kTargetReg, kTargetMem, kCallReg, kCallMem;
// A direct call's push of `immediate`.
extern const Handler kPushReturn;
// xbegin, which aborts at once.
extern const Handler kZeroEax;
// loop, loope, loopne, jrcxz: `extra` is the low two bits of the opcode, `dst` 4 for ecx, 8 for
// rcx.
extern const Handler kCounterBranch;
// Exits write their record, if they have a run.
extern const Handler kExitDirect, kExitIndirect, kExitSystemCall;
// To another fragment, without a record.
extern const Handler kForward;
extern const Handler kPause, kUnsupported;

}  // namespace shadowprof::emu
