// SPDX-License-Identifier: MIT
//
// What is to be collected: the options that `run` and `attach` share, in every mode.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collect/values/value_collector.h"
#include "sample/collection.h"
#include "sample/conditions.h"

namespace CLI {
class App;
}

namespace shadowprof::cli {

struct CollectionOptions {
  // As given: kinds, "all", "none", and "+KIND", which adds to what stands before it, or to the
  // defaults. choose_profiles() leaves kinds alone.
  std::vector<std::string> profiles;
  std::string path_scope = "inter";
  std::string hotlist = "sample";
  std::string value_context = "none";
  std::vector<std::string> condition_texts;  // as they were written
  std::vector<std::string> probes;  // as they were written
  std::vector<std::string> plugin_paths;
  bool redact_values = false;
  plugin::Plugins plugins;  // by open_plugins()

  void add_to(CLI::App& app);
  // What the engine can capture for a part of what executes, so that it does not make the other
  // kinds worse.
  struct InPart {
    bool values = false;
    bool latencies = false;
  };
  void choose_profiles(std::string_view mode, std::string_view engine, InPart in_part);
  bool wants(std::string_view profile) const;
  // Before collection(), while this process has one thread. An Error: one that is of no use with
  // this engine.
  Status open_plugins(std::string_view engine);
  // What the trace is to be made into.
  sample::Collection collection(std::string_view mode, uint64_t seed) const;
  sample::Conditions conditions() const;
  // After choose_profiles(). `has_bouts`: loads can be timed in bouts.
  Status check_conditions(std::string_view mode, bool has_bouts) const;
  // An Error: something that the engine cannot record.
  Status accepted_by(std::string_view engine) const;
  std::vector<collect::Probe> parsed_probes() const;
  void record_in(std::map<std::string, std::string>& options) const;
};

// "" if `word` is one of `known`; else a sentence that it is none.
std::string refuse_unless_one_of(std::string_view what, const std::string& word,
                                 std::span<const std::string_view> known);

}  // namespace shadowprof::cli
