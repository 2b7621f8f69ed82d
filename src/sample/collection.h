// SPDX-License-Identifier: MIT
//
// What is collected from a trace, in every mode.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "collect/collector.h"
#include "collect/paths/path_collector.h"
#include "collect/values/value_collector.h"
#include "collect/weights/sample_weights.h"
#include "emu/translate/translator.h"
#include "plugin/plugins.h"
#include "profile/profile.h"
#include "sample/plugin_code.h"
#include "sample/probe_code.h"

namespace shadowprof::sample {

struct Collection {
  // None of them: the trace is recorded and discarded.
  bool edges = true;
  bool calls = true;
  bool paths = false;
  collect::PathScope path_scope = collect::PathScope::interprocedural;
  bool values = false;
  collect::ValueCollectorOptions value_options;
  bool hide_values = false;    // of all kinds: profile/hidden_values.h
  bool any_condition = false;  // nobody has asked for that of the values: the mode says
  bool latencies = false;  // of every load that does nothing else: much slower
  // How many of them; nothing: nobody has asked, and the mode says.
  std::optional<collect::CaptureCondition> latency_condition{};
  bool times_in_bouts = false;  // and not each of them
  bool addresses = false;  // of every load and store: which lines they go to
  bool hazards = false;    // what they do to one another
  bool moments = false;    // and when, so that those of several threads can be compared
  bool waste = false;
  bool streams = false;
  std::vector<collect::Probe> probes;     // the user's
  std::shared_ptr<ProbeCode> probe_code;  // by look_at_code(); null: there are no probes
  plugin::Plugins plugins;                  // likewise
  std::shared_ptr<PluginCode> plugin_code;  // likewise
  bool sampled = false;    // a trace begins anywhere in its thread; counts have errors
  bool by_replicas = false;  // not by the program itself
  // Follow every call and return, for exact inclusive counts: reads a trace instead of counters.
  bool exact_inclusive = false;

  // Only what is within a region of the program. Each run is recorded then, and where its stack is.
  bool regions = false;

  // The engine counts what executes, so no collector has to.
  bool counted_by_engine = false;

  // How much each sample counts, when the trace has ended. Null: all the same.
  const collect::SampleWeights* weights = nullptr;

  // How often each run was executed, when the trace has ended, where the engine counts that.
  const std::vector<uint64_t>* executions = nullptr;

  // Instructions in traces that were read, up to now, for whoever is told how far a run is; null:
  // nobody.
  std::shared_ptr<std::atomic<uint64_t>> so_far;

  // Counters do not tell the order of things, nor values.
  bool needs_trace() const { return needs_order() || addresses; }
  // Collectors want to see each run, and what came before it.
  bool needs_order() const {
    return exact_inclusive || regions || paths || values || latencies || follows_memory() ||
           !probes.empty() || !plugins.empty();
  }
  // Collectors want to see where each load and store goes, in order.
  bool follows_memory() const { return hazards || waste || streams; }
  // Collectors want to know what threads are called.
  bool names_threads() const;
  // Before plan(), once for a table.
  void look_at_code(const trace::BlockTable& table, int64_t started);
  emu::CapturePlan plan() const;
  // The same where loads are not timed for their latencies.
  emu::CapturePlan plan_without_times() const;
  // The plan of bouts, and plan_without_times() is that of the rest.
  emu::CapturePlan plan_of_bouts() const;
  // May loads be timed in bouts? Else each is, as somebody wants all of them.
  bool may_time_in_bouts() const;
  // Nothing but values is captured, of each instruction by itself: where not every one is wanted
  // the engine may leave some out.
  bool captures_only_values() const { return captures_by_instruction() && !latencies; }
  // The same in replicas, whose records are all there: what executed is known, though not how long
  // its loads took.
  bool captures_by_instruction() const {
    return values && !addresses && !follows_memory() && !value_options.by_call_site &&
           probes.empty() && plugins.empty();
  }
};

std::vector<std::unique_ptr<collect::Collector>> make_collectors(const Collection& collection,
                                                                 const trace::BlockTable& table);

// With -v: how samples of one kind were weighed.
void tell_of_weights(const char* name, const collect::SampleSeries& samples);

}  // namespace shadowprof::sample
