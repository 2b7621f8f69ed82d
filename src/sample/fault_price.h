// SPDX-License-Identifier: MIT
//
// What page faults cost on this host, measured on memory of our own.
#pragma once

#include "shadow/engine_clock.h"

namespace shadowprof::sample {

// A millisecond or two. What cannot be measured stays at its default.
shadow::FaultPrice measure_faults();

}  // namespace shadowprof::sample
