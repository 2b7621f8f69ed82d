// SPDX-License-Identifier: MIT
//
// Gives the counts of a run their names, and makes the hotlists: the last step before the profile
// is written.
#pragma once

#include <span>
#include <vector>

#include "profile/profile.h"
#include "symbols/perf_map.h"
#include "trace/block_table.h"

namespace shadowprof::sample {

// Whether the tables have measured figures, or they are to be estimated from calls.
enum class Inclusive { measured, estimate };

struct Naming {
  size_t top = 0;       // rows of each hotlist
  int64_t started = 0;  // the program; seconds since the epoch
  Inclusive inclusive = Inclusive::measured;
  bool hide_values = false;                            // profile/hidden_values.h
  std::span<const symbols::PerfMapPlace> generated{};  // for the code that programs have made
};

// After collection: build-ids of the modules, functions from their symbols, and the hotlists, with
// source lines where debug information has them. Only files of modules that executed, or called
// what did, are opened. A file that is gone, or that took the place of the one that ran, has no
// names; that is no error.
void name_functions(profile::Profile& profile, const trace::BlockTable& code, const Naming& naming);

// For programs that live. Those that follow (-f) are not known yet: code of theirs has no names.
std::vector<symbols::PerfMapPlace> perf_maps_of(const std::vector<Tid>& programs);

}  // namespace shadowprof::sample
