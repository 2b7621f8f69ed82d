// SPDX-License-Identifier: MIT
//
// Translating ahead of use: what a program was seen to run, what its stacks say that it returns to,
// and what all this leads to. A miss costs a stop each, so it is better done while nobody waits.
#pragma once

#include <span>

#include "emu/code_cache.h"
#include "emu/code_source.h"
#include "emu/translate/fragment_finder.h"

namespace shadowprof::emu {

// A call with a SIB byte and a displacement; more only with prefixes.
inline constexpr size_t kLongestCall = 7;

// Do these bytes end with a call?
bool ends_with_call(std::span<const uint8_t, kLongestCall> code);
// Is there a call right before this address?
bool is_return_point(CodeSource& source, GuestAddr address);

class Prefill {
 public:
  // Translates what lies at `pcs`, and where that and what was translated since the last call lead
  // to, looking at `limit` fragments at most; returns how many were new. Addresses without code are
  // passed over.
  size_t translate(CodeCache& cache, FragmentFinder& finder, std::span<const GuestAddr> pcs,
                   size_t limit);
  // The cache is another one, and empty.
  void restart() { followed_ = 0; }

 private:
  size_t followed_ = 0;  // fragments whose successors have been seen to
};

}  // namespace shadowprof::emu
