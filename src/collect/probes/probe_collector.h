// SPDX-License-Identifier: MIT
//
// Folds a trace into what the user's probes count (probe.h, docs/probes.md).
//
// All that is known before execution is worked out once for each run (probe_plan.h). An event is
// then: take what the probe asks for from the record, evaluate the condition, count a tuple
// (probe_counts.h: bounded). Where a branch leads that the record does not say is known with the
// next record of the thread; the event waits until then.
//
// Callers are known as far as calls and returns were seen, or the sample says what was on its
// stack. A return that leads to no place that a call is known for makes them unknown. A signal
// handler begins without callers. A call stack is the callers that are known; where there are no
// more of them it says whether that is all (probe_stacks.h).
//
// A probe of threads counts where the chunk says a name that it means. Where the chunk says none
// the execution is unknown.
//
// A latency is what the time stamps around a load are apart, less what they are without a load
// between them. A replica's first load from a page may wait for the kernel, which the program's
// would not: what takes a replica as long as that, or longer, has no latency.
//
// An entry is an execution of a function's first instruction, but for jumps to it from the function
// itself: loops.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collect/collector.h"
#include "collect/probes/probe_match.h"
#include "profile/tables/latency_table.h"

namespace shadowprof::collect {

struct ProbeCollectorOptions {
  std::vector<Probe> probes;  // kMostProbes at most
  std::shared_ptr<const ProbedCode> code;
  bool sampled = false;
  bool of_replicas = false;
  // Asked when the first timed load is seen.
  std::function<profile::LatencyCalibration()> calibrate;
};

// It adds to a profile: modules, probes, their table, events of coverage; the calibration, where it
// was asked for and the profile has none.
std::unique_ptr<Collector> make_probe_collector(const trace::BlockTable& table,
                                                ProbeCollectorOptions options);

}  // namespace shadowprof::collect
