// SPDX-License-Identifier: MIT
//
// A profile made small, to be kept as what later ones are compared with: one file of at most
// `most_bytes` for a program of ordinary size, that check and diff take like a profile.
//
//   kept whole    totals, modules, functions, inlined functions, call pairs, system calls
//   kept in part  the most executed paths; values and loads of the functions that execute most of
//                 them; as many as there is room for
//   left out      blocks, edges, contexts, entries, arguments, cache lines, processor time by
//                 place, hotlists
//
// `left_out` of the profile says how many rows of which tables are not there. A comparison reports
// no change of what may only be missing: a path may have been executed as often more as the most
// executed one that was left out, and values and loads that the baseline has not are not compared.
#pragma once

#include <cstddef>

#include "profile/profile.h"

namespace shadowprof::profile {

inline constexpr size_t kMostBaseline_bytes = 100'000;

// What is kept whole stays whole if it alone needs more than that.
void reduce_to_baseline(Profile& profile, size_t most_bytes = kMostBaseline_bytes);

}  // namespace shadowprof::profile
