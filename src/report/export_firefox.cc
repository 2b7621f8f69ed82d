// SPDX-License-Identifier: MIT
//
// The processed profile format of the Firefox profiler (docs-developer of that project), version
// 47: one thread, whose samples are stacks weighted with instructions. Samples have no time of
// their own.
#include <map>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/export.h"
#include "report/stacks.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGeckoVersion = 27;
constexpr int kProcessedVersion = 47;
constexpr int kLibraryResource = 1;  // resourceTypes.library of that project

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

class ThreadBuilder {
 public:
  explicit ThreadBuilder(const profile::Profile& profile) : profile_(profile) {}

  void add(const Stack& stack) {
    Json prefix = nullptr;
    const uint32_t module = stack.at.module;
    for (const Caller& c : stack.callers)
      prefix = stack_index(prefix, frame_index(c.at ? c.at->module : module, c.frame));
    for (const StackFrame& f : stack.frames) prefix = stack_index(prefix, frame_index(module, f));
    samples_.add({{"stack", prefix}, {"time", samples_done_++}, {"weight", stack.instructions}});
  }

  // Those that code was executed in, as the format wants it.
  Json take_libraries() { return std::move(libraries_); }

  Json take() {
    Json samples = samples_.take({"stack", "time", "weight"});
    samples["weightType"] = "samples";
    Json j = {{"processType", "default"},
              {"processStartupTime", 0},
              {"processShutdownTime", nullptr},
              {"registerTime", 0},
              {"unregisterTime", nullptr},
              {"pausedRanges", Json::array()},
              {"name", "instructions"},
              {"isMainThread", true},
              {"pid", std::to_string(profile_.run.pid)},
              {"tid", profile_.run.pid}};
    j["samples"] = samples;
    j["markers"] = Table().take({"data", "name", "startTime", "endTime", "phase", "category"});
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
    const profile::Module& m = profile_.modules[module];
    const std::string name = printable(module_label(m));
    const size_t index = resources_.add({{"lib", libraries_.size()},
                                         {"name", string_index(name)},
                                         {"host", nullptr},
                                         {"type", kLibraryResource}});
    libraries_.push_back(
        {{"arch", "x86_64"},
         {"name", name},
         {"path", printable(m.path)},
         {"debugName", name},
         {"debugPath", printable(m.path)},
         {"breakpadId", ""},
         {"codeId", m.build_id.empty() ? Json(nullptr) : Json(printable(m.build_id))}});
    return resource_index_[module] = index;
  }
  size_t function_index(uint32_t module, const StackFrame& f) {
    const std::tuple key(module, f.name, f.file, f.function_line);
    const auto at = function_index_.find(key);
    if (at != function_index_.end()) return at->second;
    const size_t index = functions_.add(
        {{"name", string_index(f.name)},
         {"isJS", false},
         {"relevantForJS", false},
         {"resource", resource_index(module)},
         {"fileName", f.file.empty() ? Json(nullptr) : Json(string_index(f.file))},
         {"lineNumber", f.function_line == 0 ? Json(nullptr) : Json(f.function_line)},
         {"columnNumber", nullptr}});
    return function_index_[key] = index;
  }
  size_t frame_index(uint32_t module, const StackFrame& f) {
    const size_t function = function_index(module, f);
    const auto at = frame_index_.find({function, f.line});
    if (at != frame_index_.end()) return at->second;
    const size_t index = frames_.add({{"address", -1},
                                      {"inlineDepth", 0},
                                      {"category", 0},
                                      {"subcategory", 0},
                                      {"func", function},
                                      {"nativeSymbol", nullptr},
                                      {"innerWindowID", 0},
                                      {"implementation", nullptr},
                                      {"line", f.line == 0 ? Json(nullptr) : Json(f.line)},
                                      {"column", nullptr}});
    return frame_index_[{function, f.line}] = index;
  }
  size_t stack_index(const Json& prefix, size_t frame) {
    const int64_t parent = prefix.is_null() ? -1 : prefix.get<int64_t>();
    const auto at = stack_index_.find({parent, frame});
    if (at != stack_index_.end()) return at->second;
    const size_t index =
        stacks_.add({{"prefix", prefix}, {"frame", frame}, {"category", 0}, {"subcategory", 0}});
    return stack_index_[{parent, frame}] = index;
  }

  const profile::Profile& profile_;
  Table samples_, stacks_, frames_, functions_, resources_;
  Json strings_ = Json::array();
  Json libraries_ = Json::array();
  uint64_t samples_done_ = 0;
  std::map<std::string, size_t> string_index_;
  std::map<uint32_t, size_t> resource_index_;
  std::map<std::tuple<uint32_t, std::string, std::string, uint32_t>, size_t> function_index_;
  std::map<std::pair<size_t, uint32_t>, size_t> frame_index_;
  std::map<std::pair<int64_t, size_t>, size_t> stack_index_;
};

}  // namespace

Result<std::string> export_firefox(const ExportInput& input) {
  const profile::Profile& p = input.profile;
  ThreadBuilder thread(p);
  for (const Stack& stack : stacks(p, input.modules)) thread.add(stack);
  Json meta = {{"interval", 1},       {"startTime", 0},
               {"processType", 0},    {"product", "shadowprof"},
               {"stackwalk", 0},      {"version", kGeckoVersion},
               {"debug", false},      {"preprocessedProfileVersion", kProcessedVersion},
               {"symbolicated", true}};
  meta["categories"] = Json::array(
      {{{"name", "Other"}, {"color", "grey"}, {"subcategories", Json::array({"Other"})}}});
  meta["markerSchema"] = Json::array();
  Json j;
  j["meta"] = meta;
  j["libs"] = thread.take_libraries();
  j["pages"] = Json::array();
  j["threads"] = Json::array({thread.take()});
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report
