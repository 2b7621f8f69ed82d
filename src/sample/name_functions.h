// SPDX-License-Identifier: MIT
#pragma once

#include "profile/profile.h"

namespace shadowprof::sample {

// After collection: build-ids of the modules, functions from their symbols, and the hotlists with
// `top` rows each, with source lines where debug information has them.
void name_functions(profile::Profile& profile, size_t top);

}  // namespace shadowprof::sample
