// SPDX-License-Identifier: MIT
//
// The command line of `shadowprof run`, and what others that start a program share of it.
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
  std::optional<uint64_t> schedule_seed;
  std::string clock;  // "real", "virtual"; empty: not given
  std::string cpu_features = "native";
  bool clean_environment = false;
  std::vector<std::string> variables;  // NAME=VALUE, set in any case
  bool exact_inclusive = false;
  std::string within;  // a function, or "marks"
  std::string from;    // functions: from the entry of one to the entry of the other
  std::string to;
  // Neither: all of the program.
  bool has_region() const { return !within.empty() || !from.empty(); }
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

// The options that say what the program finds: its machine, its environment, who is followed.
void add_program_options(CLI::App& app, RunOptions& options);
Status check_program_options(const RunOptions& options);
// Takes the program's command from what the options left. A number: the exit status, as below.
std::optional<int> take_command(const CLI::App& app, std::vector<std::string> rest,
                                RunOptions& options);

// A number: the exit status, there is nothing to run. What is wrong has been said then.
std::optional<int> parse_run_options(int argc, char** argv, RunOptions& options);

}  // namespace shadowprof::cli
