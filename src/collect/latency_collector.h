// SPDX-License-Identifier: MIT
//
// Folds a trace with timed loads (trace::SlotKind::load_cycles) and address registers into load
// latencies. A load's address is put together from the registers that its record has; where one of
// them is missing (thread-local data: the segment's base is in no record), the time counts and the
// address is unknown.
//
// Loads that the first cache did not serve are also counted by their class and page, and by their
// class and the value that they got: counting samples of bounded size for each class.
//
// Left out, and counted: the first load from each page in a sample, as far as addresses are known.
// In a replica it is slow because the page was not copied yet, which the program never sees.
#pragma once

#include <memory>

#include "collect/collector.h"
#include "profile/latency_table.h"

namespace shadowprof::collect {

class LatencyCollector final : public Collector {
 public:
  LatencyCollector(const trace::BlockTable& table, const profile::LatencyCalibration& calibration);
  ~LatencyCollector() override;

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
