// SPDX-License-Identifier: MIT
//
// `shadowprof baseline`: profiles made small, kept by name, for `check --baseline`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "cli/baselines.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "profile/evidence.h"
#include "profile/file/baseline.h"
#include "profile/file/json_file.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

struct BaselineOptions {
  std::string action;
  std::string name;
  std::string profile = kDefaultProfile;
  std::string folder = kBaselineFolder;
};

// "paths: 210 rows, values: 3000 rows", of what other baselines may have.
std::string left_out_in_part(const profile::Profile& baseline) {
  std::vector<std::string> parts;
  const auto note = [&](const char* name, size_t kept) {
    const auto found = baseline.left_out.find(name);
    if (found == baseline.left_out.end() || found->second == 0) return;
    parts.push_back(fmt::format("{} of {} {}", found->second, found->second + kept, name));
  };
  note(profile::kPathLayout.name, baseline.tables.paths.size());
  note(profile::kValueLayout.name, baseline.tables.values.size());
  note(profile::kLatencyLayout.name, baseline.tables.latencies.size());
  if (parts.empty()) return "blocks and edges";
  return fmt::format("blocks, edges, {}", fmt::join(parts, ", "));
}

uint64_t bytes_of(const std::string& file) {
  std::error_code problem;
  const uintmax_t bytes = std::filesystem::file_size(file, problem);
  return problem ? 0 : bytes;
}

Status save_baseline(const BaselineOptions& options) {
  SP_TRY(check_baseline_name(options.name));
  SP_ASSIGN(profile::Profile profile, read_given_profile(options.profile));
  if (const auto part = profile::why_incomplete(profile))
    return fail("{} is no baseline: it {}", options.profile, *part);
  std::error_code problem;
  std::filesystem::create_directories(options.folder, problem);
  if (problem) return fail_errno(problem.value(), "cannot make {}", options.folder);
  profile::reduce_to_baseline(profile);
  const std::string file = baseline_file(options.folder, options.name);
  SP_TRY(profile::write_profile(profile, file, profile::Effort::small));
  info("{} bytes, without {}: {}", bytes_of(file), left_out_in_part(profile), file);
  return {};
}

Status list_baselines(const BaselineOptions& options) {
  SP_ASSIGN(const std::vector<std::string> names, baseline_names(options.folder));
  if (names.empty()) info("there is no baseline in {}", options.folder);
  std::string text;
  for (const std::string& name : names) {
    const std::string file = baseline_file(options.folder, name);
    const auto baseline = profile::read_profile(file, profile::Accept::baselines_too);
    if (!baseline) {
      warn("{}", baseline.error().message);
      continue;
    }
    const std::string command = fmt::format("{}", fmt::join(baseline->run.command, " "));
    text += fmt::format("{:<20} {:>7} bytes  {:>14} instructions  {}  {}\n", name, bytes_of(file),
                        baseline->coverage.instructions_total,
                        report::printable(baseline->run.started), report::printable(command));
  }
  return print(text);
}

}  // namespace

int baseline_main(int argc, char** argv) {
  CLI::App app("Keeps profiles, made small, for check --baseline NAME.", "shadowprof baseline");
  BaselineOptions options;
  app.add_option("ACTION", options.action, "save, or list")
      ->required()
      ->check(one_of("action", {"save", "list"}));
  app.add_option("NAME", options.name, "under which it is kept; replaces one of that name");
  app.add_option("PROFILE", options.profile, "to keep")->capture_default_str();
  app.add_option("--baseline-dir", options.folder, "where baselines are")
      ->type_name("DIR")
      ->capture_default_str();
  const Usage usage = {"save NAME [PROFILE] | list",
                       {"shadowprof baseline save sort sort.json", "shadowprof baseline list",
                        "shadowprof check --baseline sort new.json"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  const bool saves = options.action == "save";
  if (saves == options.name.empty()) {
    error("{} (see shadowprof baseline --help)",
          saves ? "NAME is missing" : fmt::format("'{}' is one word too many", options.name));
    return kExitOwnFailure;
  }
  if (const Status done = saves ? save_baseline(options) : list_baselines(options); !done) {
    error("{}", done.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
