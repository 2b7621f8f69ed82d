// SPDX-License-Identifier: MIT
//
// The instructions that compilers emit most, decoded by small tables of our own in a quarter of the
// time: integer instructions of 8, 32 and 64 bits, near branches, pushes and pops, without prefixes
// but REX. For the decoder alone.
#pragma once

#include <span>

#include "decoder/insn.h"
#include "decoder/operation.h"

namespace shadowprof::decoder {

// False: it is none of these, or ends too early, and `insn` is not to be used. Else `insn`, which
// was as constructed, is what decode_by_zydis() gives.
bool decode_plain(std::span<const uint8_t> bytes, GuestAddr address, Insn& insn);
// The same of decode_operation_by_zydis(), for those that are no direct branches.
bool plain_operation(const Insn& insn, Operation& out);

}  // namespace shadowprof::decoder
