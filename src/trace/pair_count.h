// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "base/types.h"

namespace shadowprof::trace {

// How often a run that ends in an indirect branch, call or return was followed by a block.
struct PairCount {
  RunId run;
  BlockId successor;
  uint64_t count = 0;
  auto key() const { return std::pair(run.value, successor.value); }
};

}  // namespace shadowprof::trace
