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

#include "cli/collection_options.h"
#include "cli/sampling_options.h"

namespace shadowprof::cli {

struct RunOptions {
  std::string output = "shadowprof.json";
  std::string mode = "shadow";
  bool follow = false;
  bool no_exec = false;
  bool deterministic = false;
  std::string cpu_features = "native";
  bool clean_environment = false;
  std::vector<std::string> variables;  // NAME=VALUE, set in any case
  bool exact_inclusive = false;
  bool quiet = false;
  bool verbose = false;
  size_t top = 20;
  CollectionOptions wanted;
  SamplingOptions sampling;
  std::vector<std::string> command;

  // What the trace is to be made into.
  sample::Collection collection() const;
  // What bears on the counts, for the profile's own record.
  std::map<std::string, std::string> recorded() const;
};

// A number: the exit status, there is nothing to run. What is wrong has been said then.
std::optional<int> parse_run_options(int argc, char** argv, RunOptions& options);

}  // namespace shadowprof::cli
