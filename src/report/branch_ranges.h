// SPDX-License-Identifier: MIT
//
// One file's code as branches and straight stretches between them, in the addresses that its linker
// gave it: what post-link optimisers and AutoFDO read. Only whole executions of blocks count.
#pragma once

#include <cstdint>
#include <vector>

#include "report/export.h"

namespace shadowprof::report {

struct BranchRanges {
  struct Range {
    uint64_t first = 0;  // of the first instruction
    uint64_t last = 0;   // of the last instruction, which is in the range
    uint64_t next = 0;   // behind the last
    uint64_t count = 0;
    uint64_t falls = 0;  // executions that went on to `next`
  };
  struct Branch {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t count = 0;
  };

  bool position_independent = false;
  uint64_t base = 0;             // of the first loadable segment
  uint64_t text_base = 0;        // of the page that the first executable segment begins in
  std::vector<Range> ranges;     // by address
  std::vector<Branch> branches;  // taken, both ends in the file; by address
};

// An error where the file is not at hand: its headers say what the addresses are.
Result<BranchRanges> branch_ranges(const ExportInput& input);

}  // namespace shadowprof::report
