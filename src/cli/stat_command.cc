// SPDX-License-Identifier: MIT
//
// `shadowprof stat`: exact counts of a program on one screen, and whether they are the same in each
// of several runs. The program's own output is left alone: what we say goes to standard error.
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/front.h"
#include "cli/report_outcome.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "profile/file/output_file.h"
#include "report/stat_report.h"
#include "sample/full_mode.h"
#include "sample/host.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kMostRepeats = 10'000;

struct StatOptions {
  RunOptions run;
  size_t repeat = 1;
  size_t functions = 5;
  bool json = false;
  std::string output;  // "": standard error
};

std::optional<int> parse_stat_options(int argc, char** argv, StatOptions& options) {
  CLI::App app{"Counts what PROGRAM executes, all of it, and prints the counts.",
               "shadowprof stat"};
  add_program_options(app, options.run);
  app.add_option("-r,--repeat", options.repeat, "run it N times, and show what varies")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMostRepeats))
      ->capture_default_str();
  app.add_option("--top", options.functions, "functions to show")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows))
      ->capture_default_str();
  app.add_flag("--json", options.json, "as JSON");
  app.add_option("-o,--output", options.output, "where to write the counts (standard error)")
      ->type_name("FILE");
  app.add_flag("-q,--quiet", options.run.quiet, "nothing but the counts, and errors");
  app.prefix_command();
  const Usage usage = {"[--] PROGRAM [ARG...]",
                       {"shadowprof stat -- gzip -k file",
                        "shadowprof stat --deterministic --clean-env --repeat 5 -- ./app input",
                        "shadowprof stat --json -o counts.json -- ./app input"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return status;
  options.run.mode = "full";
  options.run.wanted.profiles = {"edge", "call"};
  if (const Status sound = check_program_options(options.run); !sound) {
    error("{}", sound.error().message);
    return kExitOwnFailure;
  }
  return take_command(app, app.remaining(), options.run);
}

std::vector<report::StatCount> counts_of(const sample::RunResult& result) {
  std::vector<report::StatCount> counts;
  for (const collect::NamedOperation& operation : collect::kOperations) {
    const uint64_t n = *result.operations.*operation.member;
    counts.push_back({operation.name, {n, n}});
  }
  uint64_t calls = 0;
  for (const auto& [name, syscall] : result.profile.syscalls.by_name) calls += syscall.count;
  const auto& region = result.profile.run.region;
  if (region) calls = result.system_calls_within;
  counts.push_back({"system-calls", {calls, calls}});
  if (region) counts.push_back({"entries", {region->entries, region->entries}});
  return counts;
}

// What standard error does not take is no reason to fail.
Status write_counts(std::optional<profile::OutputFile>& file, const std::string& text) {
  if (!file) {
    write_to_user(text);
    return {};
  }
  file->write(text);
  return file->finish();
}

// The end of the first run that failed, or of the last one. A signal ends the series.
Result<profile::Exit> count_runs(const StatOptions& options, const sample::FullModeRequest& request,
                                 report::Stat& stat) {
  profile::Exit end;
  while (stat.runs() < options.repeat && !end.signalled) {
    SP_ASSIGN(const sample::RunResult result, sample::run_full_mode(request));
    say_what_is_missing(result.profile);
    if (stat.runs() == 0)
      for (const std::string& warning : result.warnings) info("{}", warning);
    if (!result.internal_error.empty())
      error("internal error, the counts are not right: {}", result.internal_error);
    stat.add_run(counts_of(result), result.profile);
    const profile::Exit now = result.profile.run.exit.value_or(profile::Exit{});
    if (now.signalled || (!end.signalled && end.value == 0)) end = now;
  }
  return end;
}

}  // namespace

int stat_main(int argc, char** argv) {
  StatOptions options;
  if (const auto status = parse_stat_options(argc, argv, options)) return *status;
  if (options.run.quiet) set_verbosity(Verbosity::quiet);
  set_progress(::isatty(STDOUT_FILENO) != 1);
  auto path = find_and_inspect(options.run.command[0]);
  if (!path) return refuse_program(path.error());

  // Who cannot write it is told before the program has run.
  std::optional<profile::OutputFile> file;
  if (!options.output.empty()) {
    auto opened = profile::OutputFile::open(options.output);
    if (!opened) {
      error("{}", opened.error().message);
      return kExitOwnFailure;
    }
    file.emplace(std::move(*opened));
  }

  sample::FullModeRequest request = full_request(options.run, std::move(*path));
  request.count_operations = true;
  sample::prepare_signals();
  report::Stat stat(options.run.command);
  const Result<profile::Exit> end = count_runs(options, request, stat);
  if (!end) {
    error("{}", end.error().message);
    return exit_status_for(end.error());
  }
  const std::string text =
      options.json ? stat.as_json(options.functions) : stat.as_text(options.functions);
  if (const Status written = write_counts(file, text); !written) {
    error("{}", written.error().message);
    if (!end->signalled && end->value == 0) return kExitOwnFailure;
  }
  end_like(*end);
}

}  // namespace shadowprof::cli
