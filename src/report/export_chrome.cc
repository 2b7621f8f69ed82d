// SPDX-License-Identifier: MIT
//
// The trace event format of chrome://tracing and Perfetto: one event for the run, or for each run
// of a merged profile. In a run that was sampled, below it the pauses of the program, and beside it
// the samples: asynchronous events, since replicas may live at the same time.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/export.h"
#include "report/run_facts.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

Json event(const std::vector<std::string>& command, const std::string& started, double duration_s,
           int64_t pid, uint64_t instructions) {
  const std::string name = command_line(command);
  return {{"ph", "X"},
          {"cat", "run"},
          {"name", printable(name.empty() ? "run" : name)},
          {"ts", started_us(started)},
          {"dur", static_cast<int64_t>(std::clamp(duration_s, 0.0, 1e9) * 1e6)},
          {"pid", pid},
          {"tid", pid},
          {"args", {{"instructions", instructions}, {"started", printable(started)}}}};
}

void add_sample(Json& events, const profile::TimelineRow& row, size_t id, int64_t begin_us,
                int64_t pid) {
  const int64_t at_us = begin_us + static_cast<int64_t>(row.at_us);
  if (row.paused_us != 0)
    events.push_back({{"ph", "X"},
                      {"cat", "pause"},
                      {"name", "pause"},
                      {"ts", at_us},
                      {"dur", row.paused_us},
                      {"pid", pid},
                      {"tid", pid}});
  Json sample = {{"ph", "b"}, {"cat", "sample"}, {"name", "sample"}, {"id", id},
                 {"ts", at_us}, {"pid", pid}, {"tid", pid}};
  sample["args"] = {{"samples", row.samples}, {"instructions", row.instructions}};
  events.push_back(sample);
  sample.erase("args");
  sample["ph"] = "e";
  sample["ts"] = at_us + static_cast<int64_t>(row.lived_us);
  events.push_back(sample);
}

}  // namespace

Result<std::string> export_chrome(const ExportInput& input) {
  const profile::Run& run = input.profile.run;
  Json events = Json::array();
  if (run.merged.empty())
    events.push_back(event(run.command, run.started, run.duration_s, run.pid,
                           input.profile.coverage.instructions_profiled));
  const profile::Timeline& timeline = input.profile.overhead.timeline;
  for (size_t i = 0; run.merged.empty() && i < timeline.size(); i++)
    add_sample(events, timeline[i], i + 1, started_us(run.started), run.pid);
  // Only the sum of the durations of merged runs is known.
  for (size_t i = 0; i < run.merged.size(); i++) {
    const profile::MergedRun& m = run.merged[i];
    events.push_back(event(m.command, m.started, 0, static_cast<int64_t>(i) + 1, m.instructions));
  }
  Json j;
  j["displayTimeUnit"] = "ms";
  j["traceEvents"] = events;
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report
