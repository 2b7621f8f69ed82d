// SPDX-License-Identifier: MIT
//
// `shadowprof diff`: what changed between two profiles.
#include <unistd.h>

#include <string>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare_files.h"
#include "cli/exit_codes.h"
#include "report/diff_report.h"

namespace shadowprof::cli {
namespace {

struct DiffOptions {
  std::string base;
  std::string now;
  bool json = false;
  size_t limit = 20;
  std::string color = "auto";
};

Status print_diff(const DiffOptions& options) {
  SP_ASSIGN(const profile::Diff diff, compare_files(options.base, options.now));
  for (const auto& [file, why] : {std::pair(options.base, diff.base_incomplete),
                                  std::pair(options.now, diff.new_incomplete)})
    if (!why.empty()) warn("{} {}", file, why);
  if (options.json) return print(report::diff_json(diff, options.limit));
  report::TextOptions text;
  text.columns = report::terminal_columns(STDOUT_FILENO);
  text.limit = options.limit;
  text.color = report::use_color(options.color, STDOUT_FILENO);
  return print(report::render_diff(diff, text));
}

}  // namespace

int diff_main(int argc, char** argv) {
  CLI::App app("Shows what changed between two profiles.", "shadowprof diff");
  DiffOptions options;
  app.add_option("BASE", options.base, "the profile before")->required();
  app.add_option("NEW", options.now, "the profile now")->required();
  app.add_flag("--json", options.json, "print all figures as JSON");
  app.add_option("--limit", options.limit, "rows of each list")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows))
      ->capture_default_str();
  app.add_option("--color", options.color, "always, auto or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"always", "auto", "never"}))
      ->capture_default_str();
  app.footer("Example:\n  shadowprof diff --limit 5 before.json after.json");
  if (const auto status = parse_command_line(app, "BASE NEW", argc, argv)) return *status;
  if (const Status printed = print_diff(options); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
