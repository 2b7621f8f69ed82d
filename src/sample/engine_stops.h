// SPDX-License-Identifier: MIT
//
// Why threads stopped under the translator, as a profile tells it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "inject/engine.h"

namespace shadowprof::sample {

std::map<std::string, uint64_t> stops_by_kind(const inject::EngineCounts& counts);

}  // namespace shadowprof::sample
