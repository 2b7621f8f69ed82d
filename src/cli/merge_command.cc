// SPDX-License-Identifier: MIT
//
// `shadowprof merge`: many profiles as one.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/version.h"
#include "profile/compare/merge.h"
#include "profile/evidence.h"
#include "profile/file/json_file.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {
namespace {

struct MergeOptions {
  std::string output;
  std::vector<std::string> inputs;
  uint64_t weight = 1;
  size_t top = 20;
};

struct Input {
  std::string file;
  uint64_t weight = 1;
};

// FILE or FILE:WEIGHT. A file that has that very name wins.
Result<Input> parse_input(const std::string& word, uint64_t weight) {
  const size_t colon = word.rfind(':');
  if (colon == std::string::npos || ::access(word.c_str(), F_OK) == 0) return Input{word, weight};
  const char* first = word.data() + colon + 1;
  const char* last = word.data() + word.size();
  uint64_t own = 0;
  const auto [end, problem] = std::from_chars(first, last, own);
  if (problem != std::errc() || end != last) return Input{word, weight};
  if (own == 0 || own > profile::kMaxMergeWeight)
    return fail("the weight of {} is not between 1 and {}", word.substr(0, colon),
                profile::kMaxMergeWeight);
  return Input{word.substr(0, colon), own};
}

Status merge_files(const MergeOptions& options) {
  std::vector<Input> inputs;
  for (const std::string& word : options.inputs) {
    SP_ASSIGN(Input input, parse_input(word, options.weight));
    inputs.push_back(std::move(input));
  }
  SP_TRY(profile::check_output(options.output));
  profile::Merger merger;
  Progress progress("merging");
  size_t done = 0;
  for (const Input& input : inputs) {
    progress.set(fmt::format("merging {} of {}", ++done, inputs.size()));
    SP_ASSIGN(profile::Profile one, profile::read_profile(input.file));
    SP_TRY(merger.add(std::move(one), input.file, input.weight));
  }
  progress.set("writing the sum");
  profile::Profile sum = merger.finish();
  const symbols::ModuleSet modules(sum.modules);
  sum.hotlists =
      merger.hotlists(sum, options.top, [&](profile::CodeRef at) { return modules.line(at); });
  sum.tool_version = version();
  SP_TRY(profile::check_consistency(sum));
  if (options.output == "-") progress.end();
  std::signal(SIGPIPE, SIG_IGN);
  const Status written = profile::write_profile(sum, options.output);
  if (!written && (options.output != "-" || written.error().errno_value != EPIPE)) return written;
  if (const auto uneven = profile::uneven_runs(sum)) warn("{}", *uneven);
  info("{} profiles merged, {} instructions in {} functions: {}", inputs.size(),
       sum.coverage.instructions_profiled, sum.functions.size(),
       options.output == "-" ? "standard output" : options.output);
  return {};
}

}  // namespace

int merge_main(int argc, char** argv) {
  CLI::App app("Adds up the counts of profiles.", "shadowprof merge");
  MergeOptions options;
  app.add_option("-o,--output", options.output,
                 "profile to write; - is standard output; .gz and .zst compress")
      ->type_name("FILE")
      ->required();
  app.add_option("--weight", options.weight, "how often to add each file without a weight")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, profile::kMaxMergeWeight))
      ->capture_default_str();
  app.add_option("--top", options.top, "rows of each hotlist")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows))
      ->capture_default_str();
  app.add_option("FILE", options.inputs, "profiles; FILE:WEIGHT adds one WEIGHT times")->required();
  const Usage usage = {"FILE[:WEIGHT]...",
                       {"shadowprof merge -o all.json host1.json host2.json",
                        "shadowprof merge -o all.json.zst typical.json:9 rare.json"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status merged = merge_files(options); !merged) {
    error("{}", merged.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
