// SPDX-License-Identifier: MIT
//
// Which instructions a probe is about, and what has to be recorded of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "collect/probes/probe.h"
#include "decoder/insn.h"
#include "trace/capture_wishes.h"

namespace shadowprof::collect {

// What of the code the probes are about, by block id; a probe is the bit of its number. Written by
// the thread that translates, before anything of a block is in a trace.
struct ProbedCode {
  ReservedArray<uint16_t> within{limits::kMaxBlocks};    // it is where the probe looks
  ReservedArray<uint16_t> entries{limits::kMaxBlocks};   // it begins a function that is entered
  ReservedArray<uint32_t> function{limits::kMaxBlocks};  // that it is in; 0: not known

  // Which instructions of the blocks that `within` names are of a probe's source lines, in the
  // order of the code: those of a block stand together. An instruction of no probe's lines is not
  // here.
  struct OnLine {
    uint32_t offset = 0;  // from the block's start
    uint16_t probes = 0;
  };
  struct Lines {
    uint32_t first = 0;  // of on_line
    uint32_t count = 0;
  };
  static constexpr size_t kMostOnLine = size_t{1} << 22;
  ReservedArray<Lines> lines{limits::kMaxBlocks};
  ReservedArray<OnLine> on_line{kMostOnLine};
  uint16_t of_lines = 0;  // the probes of source lines

  // The probes that look at an instruction so many bytes behind the block's start.
  uint16_t within_at(BlockId block, uint64_t offset) const;
};
static_assert(kMostProbes <= 16);

// Does the pattern's file and line mean this one? A file is named by the end of its path.
bool is_of_lines(const ProbePattern& pattern, std::string_view file, uint32_t line);

// Wherever it is. Patterns of entries match any instruction: code decides.
bool matches(const ProbePattern& pattern, const decoder::Insn& insn);

trace::CaptureWish wish_of(const Probe& probe, const decoder::Insn& insn);

// The access that `addr` and `size` are of: of stores what they write, of all others what they
// read, or else write. Null: there is none.
const decoder::MemoryAccess* probed_access(const ProbePattern& pattern, const decoder::Insn& insn);

// What an instruction without a result stores.
struct StoredOperand {
  decoder::Gpr reg = decoder::kNoGpr;  // kNoGpr: a constant
  uint8_t shift = 0;
  uint8_t bits = 64;
  uint64_t constant = 0;
};
std::optional<StoredOperand> stored_operand(const decoder::Insn& insn);

}  // namespace shadowprof::collect
