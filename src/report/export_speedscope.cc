// SPDX-License-Identifier: MIT
//
// speedscope's own format (file-format-schema.json of the speedscope project): frames shared, one
// "sampled" profile whose weights are instructions.
#include <map>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/stacks.h"

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

}  // namespace

Result<std::string> export_speedscope(const ExportInput& input) {
  Frames frames;
  Json samples = Json::array();
  Json weights = Json::array();
  uint64_t total = 0;
  for (const Stack& stack : stacks(input.profile, input.modules)) {
    Json sample = Json::array();
    if (input.profile.tables.contexts.empty())
      sample.push_back(
          frames.index_of(module_label(input.profile.modules[stack.at.module]), "", 0));
    // A frame is a function: the line in it is where the function begins.
    for (const Caller& c : stack.callers)
      sample.push_back(frames.index_of(c.frame.name, c.frame.file, c.frame.function_line));
    for (const StackFrame& f : stack.frames)
      sample.push_back(frames.index_of(f.name, f.file, f.function_line));
    samples.push_back(std::move(sample));
    weights.push_back(stack.instructions);
    total += stack.instructions;
  }
  Json profile = {{"type", "sampled"}, {"name", "instructions"}, {"unit", "none"},
                  {"startValue", 0},   {"endValue", total},      {"samples", samples},
                  {"weights", weights}};
  Json j;
  j["$schema"] = "https://www.speedscope.app/file-format-schema.json";
  j["exporter"] = "shadowprof " + printable(input.profile.tool_version);
  j["name"] = printable(command_line(input.profile.run.command));
  j["activeProfileIndex"] = 0;
  j["shared"]["frames"] = frames.take();
  j["profiles"] = Json::array({profile});
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report
