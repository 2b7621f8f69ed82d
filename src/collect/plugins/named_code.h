// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "base/reserved_array.h"

namespace shadowprof::collect {

// What plug-ins are told of a block besides what the block table has. The texts stay where they
// are.
struct NamedBlock {
  const char* module = nullptr;    // its path
  const char* function = nullptr;  // "": not known
  uint64_t offset = 0;             // of its beginning, in the module
  uint32_t function_number = 0;    // 0: not known
};

// By block id. Written by the thread that translates, before anything of a block is in a trace.
struct NamedCode {
  ReservedArray<NamedBlock> blocks{limits::kMaxBlocks};
};

}  // namespace shadowprof::collect
