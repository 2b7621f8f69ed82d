// SPDX-License-Identifier: MIT
//
// What an instruction leaves in a vector or mask register (insn.h), by its name and its first
// operand. For the decoder alone.
#pragma once

#include <Zydis/Zydis.h>

#include <span>

#include "decoder/insn.h"

namespace shadowprof::decoder {

ElementResult element_result_of(const ZydisDecodedInstruction& info,
                                std::span<const ZydisDecodedOperand> operands);

// Insn::loads_static, of an instruction of which all other facts are known. Moves that always take
// all of their operand, so that what is in memory is all that there is to know.
bool loads_static(const Insn& insn, const ZydisDecodedInstruction& info,
                  std::span<const ZydisDecodedOperand> operands);

}  // namespace shadowprof::decoder
