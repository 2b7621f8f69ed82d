// SPDX-License-Identifier: MIT
//
// Gives the counts of a run their names: the last step before the profile is written.
#pragma once

#include <span>
#include <vector>

#include "profile/profile.h"
#include "symbols/perf_map.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

// After collection: build-ids of the modules, functions from their symbols, and the hotlists with
// `top` rows each, with source lines where debug information has them. Only files of modules that
// executed, or called what did, are opened. A file that is gone, or that took the place of the one
// that ran since `started` (seconds since the epoch), has no names; that is no error.
// `inclusive`: whether the tables have measured figures or they are to be estimated from calls.
enum class Inclusive { measured, estimate };
// `generated`: where the programs name the code that they have made themselves.
void name_functions(profile::Profile& profile, const trace::BlockTable& code, size_t top,
                    int64_t started, Inclusive inclusive = Inclusive::measured,
                    std::span<const symbols::PerfMapPlace> generated = {});

// For programs that live. Those that follow (-f) are not known yet: code of theirs has no names.
std::vector<symbols::PerfMapPlace> perf_maps_of(const std::vector<Tid>& programs);

}  // namespace shadowprof::sample
