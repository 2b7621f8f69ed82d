// SPDX-License-Identifier: MIT
//
// What page faults cost on this host, measured on memory of our own.
#pragma once

#include "shadow/engine_clock.h"

namespace shadowprof::sample {

// Twenty milliseconds. Where it cannot be measured prices are the default ones.
shadow::FaultPrice measure_faults();

}  // namespace shadowprof::sample
