// SPDX-License-Identifier: MIT
//
// What loads cost on this host, measured the way the engine times them: loads at random places of
// sets that grow from the first cache to beyond the last one. About 100 ms.
#pragma once

#include "base/result.h"
#include "profile/latency_table.h"

namespace shadowprof::sample {

Result<profile::LatencyCalibration> calibrate_latency();

}  // namespace shadowprof::sample
