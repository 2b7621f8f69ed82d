// SPDX-License-Identifier: MIT
//
// The x87 unit remembers where its last instruction was, and a few instructions store that:
// fnstenv, fnsave, fxsave and the xsave family. In the code cache it is an address in the cache.
//
// So each of them is followed by a look at what it has stored. An address that may lie in the cache
// leads to an int3, at a Point with kPointerStored, and who runs the guest puts the guest's own
// address in its place (inject/mend_pointer.h). The unit itself cannot be corrected beforehand:
// AMD's processors forget the address whenever the kernel switches threads, so a stop in front of
// the instruction would be seen in what it stores.
//
// With a 16-bit operand size fnstenv and fnsave store the low 16 bits, which do not tell where an
// address lies. So a fnstenv of ours leaves the whole environment in the state page, and the look
// is at that. It comes behind the guest's fnstenv, which leaves the address in the unit, and with
// all exceptions masked, as ours does. fnsave leaves neither: it comes in front of that, and the
// control word is put back.
#pragma once

#include <optional>
#include <span>

#include "decoder/insn.h"
#include "emu/translate/emitter.h"

namespace shadowprof::emu {

// Where in its operand an instruction stores the address.
struct StoredPointer {
  uint8_t offset = 0;
  uint8_t bytes = 0;    // 4: the low half; 2: the low 16 bits
  bool clears = false;  // the unit has the address no more when the instruction has executed
};
std::optional<StoredPointer> stored_pointer(const decoder::Insn& insn);

// What precedes the code.
void emit_before_pointer(Emitter& e, StoredPointer stored);

// The low half of the address, where an instruction has stored the low 16 bits.
uint32_t whole_pointer(const StatePage& state);

struct CacheRange {
  uint64_t base;
  size_t size;
};
// `code` are the bytes of `insn` with their registers replaced. The guest's registers are in place
// in front of the code and behind it. The caller emits the int3 right behind it; the answer is the
// rel32 field of the jump over that.
uint32_t emit_pointer_check(Emitter& e, const decoder::Insn& insn, std::span<const uint8_t> code,
                            StoredPointer stored, CacheRange cache);

}  // namespace shadowprof::emu
