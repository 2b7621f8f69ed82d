// SPDX-License-Identifier: MIT
//
// The processed profile format of the Firefox profiler (docs-developer of that project), version
// 47: the threads of the program with their processor time, or where that was not measured, one
// thread with instructions.
//
// The profile knows in which slices of the time a thread was in which function (stack_course.h): a
// sample is a stack in a slice, as long as its time. Where it does not, each stack is one sample.
// When the program was sampled is known, too: these are markers, of the first thread.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/stack_course.h"
#include "report/time_stacks.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGeckoVersion = 27;
constexpr int kProcessedVersion = 47;
constexpr int kLibraryResource = 1;  // resourceTypes.library of that project
constexpr int kNoResource = -1;
constexpr int kIntervalMarker = 1;         // one with a start and an end
enum Category { kOther, kUser, kKernel };  // kCategories by index
constexpr const char* kCategories[][2] = {
    {"Other", "grey"}, {"User", "yellow"}, {"Kernel", "orange"}};

double ms(uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// A table of columns of equal length, as the format has them.
class Table {
 public:
  size_t add(std::initializer_list<std::pair<const char*, Json>> row) {
    for (const auto& [name, value] : row) columns_[name].push_back(value);
    return length_++;
  }
  Json take(std::initializer_list<const char*> names) {
    Json j = {{"length", length_}};
    for (const char* name : names)
      j[name] = columns_.contains(name) ? std::move(columns_[name]) : Json::array();
    return j;
  }

 private:
  std::map<std::string, Json> columns_;
  size_t length_ = 0;
};

// The files that code was executed in, which all threads share.
class Libraries {
 public:
  explicit Libraries(const profile::Profile& profile) : profile_(profile) {}

  size_t index_of(uint32_t module) {
    const auto [at, added] = index_.try_emplace(module, libraries_.size());
    if (!added) return at->second;
    const profile::Module& m = profile_.modules[module];
    const std::string name = printable(module_label(m));
    libraries_.push_back(
        {{"arch", "x86_64"},
         {"name", name},
         {"path", printable(m.path)},
         {"debugName", name},
         {"debugPath", printable(m.path)},
         {"breakpadId", ""},
         {"codeId", m.build_id.empty() ? Json(nullptr) : Json(printable(m.build_id))}});
    return at->second;
  }
  std::string name_of(size_t library) const { return libraries_[library]["name"]; }
  Json take() { return std::move(libraries_); }

 private:
  const profile::Profile& profile_;
  Json libraries_ = Json::array();
  std::map<uint32_t, size_t> index_;  // by module
};

class ThreadBuilder {
 public:
  explicit ThreadBuilder(Libraries& libraries) : libraries_(libraries) {}

  void add(const ThreadStack& stack, double time, const Json& weight) {
    Json prefix = nullptr;
    for (const Caller& c : stack.callers)
      prefix = stack_index(prefix, frame_index(module_of(c.at), c.frame, kUser), kUser);
    for (const StackFrame& f : stack.frames)
      prefix = stack_index(prefix, frame_index(module_of(stack.at), f, kUser), kUser);
    if (stack.kernel) {
      const StackFrame frame{kKernelFrame, "", "", 0, 0};
      prefix = stack_index(prefix, frame_index(std::nullopt, frame, kKernel), kKernel);
    }
    samples_.add({{"stack", prefix}, {"time", time}, {"weight", weight}});
  }

  void add_marker(const profile::TimelineRow& row) {
    const double start = ms(row.at_us * 1000);
    markers_.add({{"data",
                   {{"type", "samples"},
                    {"samples", row.samples},
                    {"instructions", row.instructions},
                    {"paused", ms(row.paused_us * 1000)}}},
                  {"name", string_index("samples")},
                  {"startTime", start},
                  {"endTime", start + ms(row.lived_us * 1000)},
                  {"phase", kIntervalMarker},
                  {"category", kOther}});
  }

  // With `facts`, which say whose samples these are.
  Json take(Json facts, const char* weight_type) {
    Json j = std::move(facts);
    Json samples = samples_.take({"stack", "time", "weight"});
    samples["weightType"] = weight_type;
    j["processType"] = "default";
    j["processStartupTime"] = 0;
    j["processShutdownTime"] = nullptr;
    j["registerTime"] = 0;
    j["unregisterTime"] = nullptr;
    j["pausedRanges"] = Json::array();
    j["samples"] = samples;
    j["markers"] = markers_.take({"data", "name", "startTime", "endTime", "phase", "category"});
    j["stackTable"] = stacks_.take({"prefix", "frame", "category", "subcategory"});
    j["frameTable"] =
        frames_.take({"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol",
                      "innerWindowID", "implementation", "line", "column"});
    j["funcTable"] = functions_.take(
        {"name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"});
    j["resourceTable"] = resources_.take({"lib", "name", "host", "type"});
    j["nativeSymbols"] = Table().take({"libIndex", "address", "name", "functionSize"});
    j["stringArray"] = strings_;
    return j;
  }

 private:
  size_t string_index(const std::string& text) {
    const auto [at, added] = string_index_.try_emplace(text, string_index_.size());
    if (added) strings_.push_back(printable(text));
    return at->second;
  }
  size_t resource_index(uint32_t module) {
    const auto at = resource_index_.find(module);
    if (at != resource_index_.end()) return at->second;
    const size_t library = libraries_.index_of(module);
    const size_t index = resources_.add({{"lib", library},
                                         {"name", string_index(libraries_.name_of(library))},
                                         {"host", nullptr},
                                         {"type", kLibraryResource}});
    return resource_index_[module] = index;
  }
  static std::optional<uint32_t> module_of(const std::optional<profile::CodeRef>& at) {
    return at ? std::optional(at->module) : std::nullopt;
  }
  // Without a module it is the kernel, or a name for callers that are not known.
  size_t function_index(std::optional<uint32_t> module, const StackFrame& f) {
    const std::tuple key(module, f.name, f.file, f.function_line);
    const auto at = function_index_.find(key);
    if (at != function_index_.end()) return at->second;
    const size_t index = functions_.add(
        {{"name", string_index(f.name)},
         {"isJS", false},
         {"relevantForJS", false},
         {"resource", module ? Json(resource_index(*module)) : Json(kNoResource)},
         {"fileName", f.file.empty() ? Json(nullptr) : Json(string_index(f.file))},
         {"lineNumber", f.function_line == 0 ? Json(nullptr) : Json(f.function_line)},
         {"columnNumber", nullptr}});
    return function_index_[key] = index;
  }
  size_t frame_index(std::optional<uint32_t> module, const StackFrame& f, Category category) {
    const size_t function = function_index(module, f);
    const auto at = frame_index_.find({function, f.line});
    if (at != frame_index_.end()) return at->second;
    const size_t index = frames_.add({{"address", -1},
                                      {"inlineDepth", 0},
                                      {"category", category},
                                      {"subcategory", 0},
                                      {"func", function},
                                      {"nativeSymbol", nullptr},
                                      {"innerWindowID", 0},
                                      {"implementation", nullptr},
                                      {"line", f.line == 0 ? Json(nullptr) : Json(f.line)},
                                      {"column", nullptr}});
    return frame_index_[{function, f.line}] = index;
  }
  size_t stack_index(const Json& prefix, size_t frame, Category category) {
    const int64_t parent = prefix.is_null() ? -1 : prefix.get<int64_t>();
    const auto at = stack_index_.find({parent, frame});
    if (at != stack_index_.end()) return at->second;
    const size_t index = stacks_.add(
        {{"prefix", prefix}, {"frame", frame}, {"category", category}, {"subcategory", 0}});
    return stack_index_[{parent, frame}] = index;
  }

  Libraries& libraries_;
  Table samples_, markers_, stacks_, frames_, functions_, resources_;
  Json strings_ = Json::array();
  std::map<std::string, size_t> string_index_;
  std::map<uint32_t, size_t> resource_index_;
  std::map<std::tuple<std::optional<uint32_t>, std::string, std::string, uint32_t>, size_t>
      function_index_;
  std::map<std::pair<size_t, uint32_t>, size_t> frame_index_;
  std::map<std::pair<int64_t, size_t>, size_t> stack_index_;
};

Json meta_of(const profile::Profile& p) {
  const uint64_t tick = tick_ns(p.time);
  Json meta = {{"interval", tick == 0 ? 1.0 : ms(tick)},
               {"startTime", static_cast<double>(started_us(p.run.started)) / 1e3},
               {"processType", 0},
               {"product", "shadowprof"},
               {"stackwalk", 0},
               {"version", kGeckoVersion},
               {"debug", false},
               {"preprocessedProfileVersion", kProcessedVersion},
               {"symbolicated", true},
               {"usesOnlyOneStackType", true},
               {"doesNotUseFrameImplementation", true},
               {"sourceCodeIsNotOnSearchfox", true},
               {"arguments", printable(command_line(p.run.command))},
               {"CPUName", printable(p.run.host.cpu)},
               {"logicalCPUs", p.run.host.cores}};
  meta["categories"] = Json::array();
  for (const auto& [name, color] : kCategories)
    meta["categories"].push_back(
        {{"name", name}, {"color", color}, {"subcategories", Json::array({"Other"})}});
  const auto field = [](const char* key, const char* label, const char* format) {
    return Json{{"key", key}, {"label", label}, {"format", format}};
  };
  meta["markerSchema"] = Json::array(
      {{{"name", "samples"},
        {"chartLabel", "{marker.data.samples}"},
        {"tableLabel", "{marker.data.samples} samples of {marker.data.instructions} instructions"},
        {"display", {"marker-chart", "marker-table", "timeline-overview"}},
        {"data",
         {field("samples", "Samples", "integer"), field("instructions", "Instructions", "integer"),
          field("paused", "Program paused for", "duration")}}}});
  return meta;
}

class Exporter {
 public:
  explicit Exporter(const ExportInput& input)
      : profile_(input.profile),
        all_(stacks_of_threads(input.profile, input.modules)),
        libraries_(input.profile) {}

  bool has_code() const { return !all_.stacks.empty(); }

  std::string text() {
    Json threads = Json::array();
    for (auto first = all_.stacks.begin(); first != all_.stacks.end();) {
      const auto last = std::ranges::find_if(first, all_.stacks.end(), [&](const ThreadStack& s) {
        return s.thread != first->thread;
      });
      threads.push_back(thread_of(std::span(first, last), threads.empty()));
      first = last;
    }
    Json j;
    j["meta"] = meta_of(profile_);
    j["libs"] = libraries_.take();
    j["pages"] = Json::array();
    j["threads"] = threads;
    return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  Json thread_of(std::span<const ThreadStack> stacks, bool has_markers) {
    ThreadBuilder thread(libraries_);
    if (all_.is_time) {
      for (const StackMoment& m : moments_of(stacks, profile_))
        thread.add(*m.stack, ms(m.at_ns), ms(m.amount));
    } else {
      // Instructions have no time at all: one sample a millisecond.
      for (size_t i = 0; i < stacks.size(); i++)
        thread.add(stacks[i], static_cast<double>(i), stacks[i].amount);
    }
    if (has_markers)
      for (const profile::TimelineRow& row : profile_.overhead.timeline) thread.add_marker(row);
    return thread.take(facts_of(all_.threads[stacks.front().thread]),
                       all_.is_time ? "tracing-ms" : "samples");
  }

  Json facts_of(const profile::ThreadRow& thread) const {
    const auto first = std::ranges::find(all_.threads, thread.process, &profile::ThreadRow::tid);
    const std::string process =
        first == all_.threads.end() ? program_name(profile_.run) : first->name;
    return {{"name", all_.is_time ? printable(thread.name) : "instructions"},
            {"processName", printable(process)},
            {"isMainThread", thread.tid == thread.process},
            {"pid", std::to_string(thread.process)},
            {"tid", thread.tid}};
  }

  const profile::Profile& profile_;
  const StacksOfThreads all_;
  Libraries libraries_;
};

}  // namespace

Result<std::string> export_firefox(const ExportInput& input) {
  Exporter exporter(input);
  if (!exporter.has_code()) return fail("there is no code in the profile");
  return exporter.text();
}

}  // namespace shadowprof::report
