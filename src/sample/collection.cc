// SPDX-License-Identifier: MIT
#include "sample/collection.h"

#include <shadowprof/collector.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "collect/edges/edge_collector.h"
#include "collect/loads/address_collector.h"
#include "collect/loads/hazard_collector.h"
#include "collect/loads/latency_collector.h"
#include "collect/loads/waste_collector.h"
#include "collect/plugins/plugin_collector.h"
#include "collect/probes/probe_collector.h"
#include "collect/streams/stream_collector.h"
#include "probe/calibrate.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kLineBytes = 64;

collect::EdgeCollectorOptions edge_options(const Collection& collection) {
  return {.calls = collection.calls,
          .errors = collection.sampled,
          .contexts = collection.calls,
          .begins_anywhere = collection.sampled,
          .weights = collection.weights,
          .so_far = collection.so_far.get()};
}

profile::LatencyCalibration calibrated() {
  return probe::calibrate_latency(probe::HostNotes());
}

collect::LatencyCollectorOptions latency_options_of(const Collection& collection) {
  collect::LatencyCollectorOptions options;
  options.calibrate = calibrated;
  options.of_replicas = collection.by_replicas;
  if (collection.times_in_bouts) options.executions = collection.executions;
  const auto set_lines = [](size_t& lines, int cache) {
    const long bytes = ::sysconf(cache);
    if (bytes > 0) lines = static_cast<size_t>(bytes) / kLineBytes;
  };
  set_lines(options.cold_lines, _SC_LEVEL2_CACHE_SIZE);
  set_lines(options.last_cache_lines, _SC_LEVEL3_CACHE_SIZE);
  return options;
}

}  // namespace

void Collection::look_at_code(const trace::BlockTable& table, int64_t started) {
  if (!probes.empty()) probe_code = std::make_shared<ProbeCode>(table, probes, started);
  if (!plugins.empty())
    plugin_code = std::make_shared<PluginCode>(table, started, probe_code.get());
}

bool Collection::names_threads() const {
  return std::ranges::any_of(
      probes, [](const collect::Probe& probe) { return !probe.pattern.thread.empty(); });
}

emu::CapturePlan Collection::plan() const {
  emu::CapturePlan plan;
  plan.values = values || plugins.want(SHADOWPROF_WANTS_VALUES);
  plan.load_cycles = latencies || plugins.want(SHADOWPROF_WANTS_LATENCIES);
  plan.addresses =
      latencies || addresses || follows_memory() || plugins.want(SHADOWPROF_WANTS_ACCESSES);
  plan.wishes = probe_code.get();
  if (plugin_code) plan.wishes = plugin_code.get();  // which passes on what probes wish for
  plan.stack_pointer = regions;
  plan.moments = moments;
  plan.stored = waste;
  plan.empty_records = needs_order() || !counted_by_engine;
  return plan;
}

emu::CapturePlan Collection::plan_without_times() const {
  Collection others = *this;
  others.latencies = false;
  return others.plan();
}

emu::CapturePlan Collection::plan_of_bouts() const {
  emu::CapturePlan bouts = plan();
  bouts.of_bouts = true;
  return bouts;
}

bool Collection::may_time_in_bouts() const {
  return latencies && !plugins.want(SHADOWPROF_WANTS_LATENCIES);
}

std::vector<std::unique_ptr<collect::Collector>> make_collectors(const Collection& collection,
                                                                 const trace::BlockTable& table) {
  std::vector<std::unique_ptr<collect::Collector>> collectors;
  // What executed is what all other tables are shares of.
  if (!collection.counted_by_engine) {
    collectors.push_back(
        std::make_unique<collect::EdgeCollector>(table, edge_options(collection)));
  }
  if (collection.paths) {
    collect::PathCollectorOptions path_options;
    path_options.scope = collection.path_scope;
    path_options.whole_threads = !collection.sampled;
    path_options.errors = collection.sampled;
    path_options.weights = collection.weights;
    collectors.push_back(std::make_unique<collect::PathCollector>(
        table, path_options));
  }
  if (collection.addresses)
    collectors.push_back(
        std::make_unique<collect::AddressCollector>(table, collection.executions));
  const collect::AccessFollowerOptions following{
      .sampled = collection.sampled,
      .moments = collection.by_replicas ? collect::Moments::samples
                 : collection.moments   ? collect::Moments::recorded
                                        : collect::Moments::buffers};
  if (collection.hazards)
    collectors.push_back(collect::make_hazard_collector(table, following));
  if (collection.waste)
    collectors.push_back(collect::make_waste_collector(table, following));
  if (collection.streams)
    collectors.push_back(collect::make_stream_collector(table, following));
  if (collection.probe_code)
    collectors.push_back(
        collect::make_probe_collector(table, {.probes = collection.probes,
                                              .code = collection.probe_code->code(),
                                              .sampled = collection.sampled,
                                              .of_replicas = collection.by_replicas,
                                              .calibrate = calibrated}));
  for (const auto& plugin : collection.plugins.all)
    collectors.push_back(collect::make_plugin_collector(
        table, {.keeper = collection.plugins.keeper,
                .plugin = plugin,
                .code = collection.plugin_code->code(),
                .sampled = collection.sampled,
                .by_replicas = collection.by_replicas}));
  if (collection.latencies) {
    collectors.push_back(
        std::make_unique<collect::LatencyCollector>(table, latency_options_of(collection)));
  }
  if (collection.values) {
    collect::ValueCollectorOptions value_options = collection.value_options;
    value_options.errors = collection.sampled;
    if (!collection.paths && value_options.seen_enough != nullptr)
      value_options.executions = collection.executions;
    collectors.push_back(std::make_unique<collect::ValueCollector>(table, value_options));
  }
  return collectors;
}

void tell_of_weights(const char* name, const collect::SampleSeries& samples) {
  detail("{} {}: off by {:.5f} by chance, times believed {:.2f}, speeds {:.2f}",
         samples.size(), name, samples.chance(), samples.believed(), samples.believed_speeds());
}

}  // namespace shadowprof::sample
