// SPDX-License-Identifier: MIT
//
// Counts of single instructions: a profile has those of blocks, the program's file has the
// instructions in them. Code that has no file, or whose file is not the one that ran, has none;
// neither has code that was changed while it ran.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/compare/diff.h"
#include "profile/profile.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct InsnCost {
  profile::CodeRef at;
  uint8_t length = 0;
  uint64_t count = 0;  // how often it executed
};

class CodeCosts {
 public:
  // Both must outlive this.
  CodeCosts(const profile::Profile& profile, const symbols::ModuleSet& modules);

  // The instructions of a row of the block table, in order. Empty: not known.
  std::vector<InsnCost> instructions(size_t block) const;
  // What the block's executions came to: the sum of the instructions' counts.
  uint64_t executed(size_t block) const;

 private:
  const profile::Profile& profile_;
  const symbols::ModuleSet& modules_;
  std::vector<uint32_t> first_interruption_;  // of each block, and one past the last
};

// Instructions of each source line that is known, inlined code under the line it was written on.
std::vector<profile::LineCost> line_costs(const profile::Profile& profile,
                                          const symbols::ModuleSet& modules);

}  // namespace shadowprof::report
