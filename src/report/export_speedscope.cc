// SPDX-License-Identifier: MIT
//
// speedscope's own format (file-format-schema.json of the speedscope project): frames shared, and
// "sampled" profiles whose weights are processor time of all threads, where that was measured, and
// instructions.
#include <map>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/stacks.h"
#include "report/time_stacks.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

class Frames {
 public:
  size_t index_of(const std::string& name, const std::string& file, uint32_t line) {
    const auto [at, added] = index_.try_emplace({name, file, line}, index_.size());
    if (added) {
      Json frame = {{"name", printable(name)}};
      if (!file.empty()) frame["file"] = printable(file);
      if (line != 0) frame["line"] = line;
      json_.push_back(std::move(frame));
    }
    return at->second;
  }
  Json take() { return std::move(json_); }

 private:
  std::map<std::tuple<std::string, std::string, uint32_t>, size_t> index_;
  Json json_ = Json::array();
};

// "sampled": stacks with a weight each.
class Sampled {
 public:
  Sampled(Frames& frames, const profile::Profile& profile) : frames_(frames), profile_(profile) {}
  void add(std::optional<profile::CodeRef> at, const std::vector<Caller>& callers,
           const std::vector<StackFrame>& inner, bool kernel, uint64_t weight) {
    Json sample = Json::array();
    if (profile_.tables.contexts.empty() && at)
      sample.push_back(frames_.index_of(module_label(profile_.modules[at->module]), "", 0));
    // A frame is a function: the line in it is where the function begins.
    for (const Caller& c : callers)
      sample.push_back(frames_.index_of(c.frame.name, c.frame.file, c.frame.function_line));
    for (const StackFrame& f : inner)
      sample.push_back(frames_.index_of(f.name, f.file, f.function_line));
    if (kernel) sample.push_back(frames_.index_of(kKernelFrame, "", 0));
    samples_.push_back(std::move(sample));
    weights_.push_back(weight);
    total_ += weight;
  }
  Json done(const char* name, const char* unit) && {
    return {{"type", "sampled"},   {"name", name},
            {"unit", unit},        {"startValue", 0},
            {"endValue", total_},  {"samples", std::move(samples_)},
            {"weights", std::move(weights_)}};
  }

 private:
  Frames& frames_;
  const profile::Profile& profile_;
  Json samples_ = Json::array(), weights_ = Json::array();
  uint64_t total_ = 0;
};

}  // namespace

Result<std::string> export_speedscope(const ExportInput& input) {
  Frames frames;
  Json profiles = Json::array();
  const auto times = time_stacks(input.profile, input.modules);
  if (!times.empty()) {
    Sampled time(frames, input.profile);
    for (const ThreadStack& s : times) time.add(s.at, s.callers, s.frames, s.kernel, s.amount);
    profiles.push_back(std::move(time).done("processor time", "nanoseconds"));
  }
  Sampled instructions(frames, input.profile);
  for (const Stack& s : stacks(input.profile, input.modules))
    instructions.add(s.at, s.callers, s.frames, false, s.instructions);
  profiles.push_back(std::move(instructions).done("instructions", "none"));
  Json j;
  j["$schema"] = "https://www.speedscope.app/file-format-schema.json";
  j["exporter"] = "shadowprof " + printable(input.profile.tool_version);
  j["name"] = printable(command_line(input.profile.run.command));
  j["activeProfileIndex"] = 0;
  j["shared"]["frames"] = frames.take();
  j["profiles"] = std::move(profiles);
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report
