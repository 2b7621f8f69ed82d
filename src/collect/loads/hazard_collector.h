// SPDX-License-Identifier: MIT
//
// Folds a trace with address registers into what keeps a processor waiting for its own accesses:
// loads that cannot take their bytes from a store before them, though they overlap it; loads whose
// address agrees with such a store's in the low 12 bits only; accesses across cache lines and
// pages. docs/hazards.md says what each means.
//
// A store is recent while fewer than kRecentStores others and at most kRecentInsns instructions
// follow it. That is more than most processors have under way, so what is reported is what can
// happen, at most so often. Of several recent stores to equal low 12 bits the last one counts. In
// samples, loads of the first kRecentInsns instructions are not looked at.
#pragma once

#include <cstdint>
#include <memory>

#include "collect/collector.h"
#include "collect/loads/access_follower.h"

namespace shadowprof::collect {

inline constexpr uint32_t kRecentStores = 64;
inline constexpr uint64_t kRecentInsns = 200;

// It adds to a profile: modules, the table of hazards, events of coverage.
std::unique_ptr<Collector> make_hazard_collector(const trace::BlockTable& table,
                                                 AccessFollowerOptions options);

}  // namespace shadowprof::collect
