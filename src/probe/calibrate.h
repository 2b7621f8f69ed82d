// SPDX-License-Identifier: MIT
//
// What loads cost on this host, by the code that times the program's (timed_code.h), in rounds of
// about three milliseconds:
//
//   overhead, hits    the stamps alone, and one line again and again, by each kind of load
//   L2, L3            random loads of sets that do not fit into the cache before
//   memory            lines that were flushed from all caches
//   across            lines that another core has loaded, where this thread may use two
//   fault             pages that were never touched: the kernel maps the page of zeros
//
// What stamps take is measured beside each of these, and subtracted. Others only ever add to what a
// far load takes, and drive sets out of the last cache: the least round counts. Near loads take the
// same in all rounds in which nobody else used the core, but for what the clock's steps add or
// leave out: the middle one of these rounds counts. Across cores the greatest counts, as each round
// takes another pair. By how much rounds differ, in the middle, is LatencyCalibration::spread.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "probe/host_notes.h"
#include "profile/tables/latency_table.h"

namespace shadowprof::probe {

// Cycles, without the overhead but in `overhead` itself.
struct LatencyRound {
  double resolution = 0;
  double overhead = 0;
  std::array<double, profile::kLoadKinds> hits{};
  double l2 = 0, l3 = 0, dram = 0;
  double across = 0;  // 0: there is one core
  double fault = 0;
};

Result<LatencyRound> measure_latency_round(uint64_t seed);
// At least one.
profile::LatencyCalibration calibration_of(const std::vector<LatencyRound>& rounds);

// From what is noted, and some rounds more where that is not enough yet. Ten milliseconds at most,
// of the calling thread. Where nothing can be measured the result is_doubtful().
profile::LatencyCalibration calibrate_latency(const HostNotes& notes);

}  // namespace shadowprof::probe
