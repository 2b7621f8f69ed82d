// SPDX-License-Identifier: MIT
//
// Folds a trace with timed loads (trace::SlotKind::load_cycles) and address registers into load
// latencies. A load's address is put together from the registers that its record has; where one of
// them is missing (thread-local data: the segment's base is in no record), the time counts and the
// address is unknown.
//
// Loads that the second cache, the last one or memory served are also counted by page, and by the
// value that they got: counting samples of bounded size for each class.
//
// What a replica measures that its program would not see:
//
//   Page faults. fork(2) gives a child the page table entries of anonymous memory, write-protected
//   where they were writable: a load from there takes no fault, however new the replica is. Those
//   of files and shared memory it does not copy, and the first load from such a page enters the
//   kernel. Under some hypervisors any page costs the first load from it as much, as they fill page
//   tables of their own. The clock tells it: a fault takes longer than any load from memory
//   (LatencyCalibration::fault), which is what `beyond` means where a page is new. So the first
//   load from a page in a sample is left out, and counted, if it was `beyond`; and it counts if it
//   was not, though the page is new in this sample.
//
//   Cold caches. A replica begins on another core than its program. A line that the program had in
//   a cache of its own core comes from the last cache then, which cores share, or from memory,
//   where they do not. In the first sample of a replica the first load of a line may be such a one,
//   as long as no more lines were loaded than those caches have: if it came from there it is
//   counted as `cold`, with what it would have saved had it hit. That sum by all loads is an error
//   of the mean, to one side. What came from memory though cores share the last cache was in no
//   cache of the program's either. Where they do not, the second sample is like the first. Later
//   samples of the replica have had time to warm up: where one instruction's loads were timed often
//   enough in the third sample and those after it, what was measured before does not count.
//
// Where loads are timed in bouts (timed_bouts.h), each timed load stands for others. All loads of a
// bout together are one observation of the mean.
//
// The calibration is asked for when the first timed load is seen, and by this thread: the program
// does not wait.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collect/collector.h"
#include "profile/tables/latency_table.h"

namespace shadowprof::collect {

struct LatencyCollectorOptions {
  std::function<profile::LatencyCalibration()> calibrate;
  bool of_replicas = false;
  size_t cold_lines = 16384;         // that a core's own caches have
  size_t last_cache_lines = 262144;  // the last one
  // By run id, when finish() is called. Null: each execution is in the trace, and is counted there.
  const std::vector<uint64_t>* executions = nullptr;
};

class LatencyCollector final : public Collector {
 public:
  LatencyCollector(const trace::BlockTable& table, LatencyCollectorOptions options);
  ~LatencyCollector() override;

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
