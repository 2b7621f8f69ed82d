// SPDX-License-Identifier: MIT
#include "sample/collection.h"

#include "collect/edge_collector.h"
#include "collect/latency_collector.h"
#include "sample/calibrate.h"

namespace shadowprof::sample {

emu::CapturePlan Collection::plan() const {
  emu::CapturePlan plan;
  plan.values = values;
  plan.load_cycles = plan.addresses = latencies;
  return plan;
}

Result<Calibration> calibrate_for(const Collection& collection) {
  if (!collection.latencies) return Calibration();
  SP_ASSIGN(Calibration calibration, calibrate_latency());
  return calibration;
}

std::vector<std::unique_ptr<collect::Collector>> make_collectors(const Collection& collection,
                                                                 const trace::BlockTable& table,
                                                                 const Calibration& calibration) {
  std::vector<std::unique_ptr<collect::Collector>> collectors;
  // Always: what executed is what all other tables are shares of.
  collectors.push_back(std::make_unique<collect::EdgeCollector>(
      table, collect::EdgeCollectorOptions{collection.calls}));
  if (collection.paths) {
    collectors.push_back(std::make_unique<collect::PathCollector>(
        table, collect::PathCollectorOptions{collection.path_scope, true}));
  }
  if (calibration) {
    collectors.push_back(std::make_unique<collect::LatencyCollector>(table, *calibration));
  }
  if (collection.values) {
    collectors.push_back(
        std::make_unique<collect::ValueCollector>(table, collection.value_options));
  }
  return collectors;
}

}  // namespace shadowprof::sample
