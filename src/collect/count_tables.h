// SPDX-License-Identifier: MIT
//
// Profile tables from counters: the counterpart of EdgeCollector for runs that were counted while
// they executed, and not read from a trace. Blocks, edges and calls are exact. What needs the order
// of events, the instructions between a call and its return, is not known here
// (profile/hotlists/inclusive_estimate.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "profile/profile.h"
#include "trace/block_table.h"
#include "trace/pair_count.h"
#include "trace/thread_counts.h"

namespace shadowprof::collect {

// `runs` is indexed by run id; `threads` have as much together, or are not known. Adds to `into`
// what EdgeCollector::finish would: modules, tables, and the counts of coverage.
void add_counts(const trace::BlockTable& table, std::span<const uint64_t> runs,
                std::span<const trace::PairCount> pairs, bool calls,
                std::span<const trace::ThreadCount> threads, profile::Profile& into);

}  // namespace shadowprof::collect
