// SPDX-License-Identifier: MIT
//
// What is to be recorded of single instructions, beside what a whole plan records: engines ask when
// they translate, once for each block and then for each of its instructions.
//
// What was wished for is in slots of the kinds that there are anyway: registers before an
// instruction as `base` slots, where the record does not tell them already, results as `value`,
// `vector` and `mask` slots, a division's memory operand as a `memory` slot, a load's time as
// `load_cycles`. Interpreters cannot time loads, and leave that out.
#pragma once

#include "decoder/insn.h"
#include "trace/block_table.h"

namespace shadowprof::trace {

struct CaptureWish {
  decoder::GprMask registers = 0;  // before the instruction
  bool addresses = false;          // the registers that its accesses are addressed by
  bool results = false;
  bool divisor = false;  // in memory
  bool cycles = false;   // that its load takes, if it has one that can be timed
};

class CaptureWishes {
 public:
  virtual ~CaptureWishes() = default;
  // On the thread that translates, before anything of the block is in a trace.
  virtual void meet(BlockId block) = 0;
  // The block was met. `first`: it is the block's first instruction.
  virtual CaptureWish wish(BlockId block, const decoder::Insn& insn, bool first) = 0;
  // Some wish may be for the time of a load.
  virtual bool times_loads() const = 0;
};

}  // namespace shadowprof::trace
