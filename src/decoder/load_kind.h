// SPDX-License-Identifier: MIT
//
// By what an instruction loads (insn.h). For the decoder alone.
#pragma once

#include <Zydis/Zydis.h>

#include "decoder/insn.h"

namespace shadowprof::decoder {

// What an ordinary instruction loads by its access `load_access`. The accesses and `pure_load` are
// known.
LoadKind kind_of_load(const Insn& insn, const ZydisDecodedInstruction& info);

}  // namespace shadowprof::decoder
