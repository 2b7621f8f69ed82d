// SPDX-License-Identifier: MIT
//
// The command line of `shadowprof run`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/sampling_options.h"
#include "collect/value_collector.h"

namespace shadowprof::cli {

struct RunOptions {
  std::string output = "shadowprof.json";
  std::string mode = "shadow";
  std::vector<std::string> profiles = {"edge", "call", "method"};
  bool follow = false;
  bool deterministic = false;
  bool exact_inclusive = false;
  std::string path_scope = "inter";
  std::string hotlist = "sample";
  std::string value_context = "none";
  std::string value_condition;  // "": the collector's default
  bool quiet = false;
  bool verbose = false;
  size_t top = 20;
  SamplingOptions sampling;
  std::vector<std::string> command;

  // What the trace is to be made into.
  sample::Collection collection() const;
  bool wants(std::string_view profile) const;
  // What bears on the counts, for the profile's own record.
  std::map<std::string, std::string> recorded() const;
};

// Of --condition; nothing when it is none.
std::optional<collect::ValueCondition> parse_condition(std::string_view text);

// A number: the exit status, there is nothing to run. What is wrong has been said then.
std::optional<int> parse_run_options(int argc, char** argv, RunOptions& options);

}  // namespace shadowprof::cli
