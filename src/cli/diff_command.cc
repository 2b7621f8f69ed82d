// SPDX-License-Identifier: MIT
//
// `shadowprof diff`: what changed between two profiles.
#include <unistd.h>

#include <optional>
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
  bool html = false;
  std::string output = "-";
  std::optional<size_t> limit;
  std::string color = "auto";
};

Status print_diff(const DiffOptions& options) {
  if (options.html)
    return write_diff_page(options.base, options.now, options.limit.value_or(kPageRows),
                           options.output);
  SP_ASSIGN(const ComparedFiles files, compare_files(options.base, options.now));
  tell_of_gaps(files.diff, options.base, options.now);
  const size_t limit = options.limit.value_or(kTextRows);
  if (options.json) return write_text(report::diff_json(files.diff, limit), options.output);
  report::TextOptions text;
  text.columns = report::terminal_columns(STDOUT_FILENO);
  text.limit = limit;
  text.color = report::use_color(options.output == "-" ? options.color : "never", STDOUT_FILENO);
  return write_text(report::render_diff(files.diff, text), options.output);
}

}  // namespace

int diff_main(int argc, char** argv) {
  CLI::App app("Shows what changed between two profiles.", "shadowprof diff");
  DiffOptions options;
  app.add_option("BASE", options.base, "the profile before")->required();
  app.add_option("NEW", options.now, "the profile now")->required();
  const auto json = app.add_flag("--json", options.json, "print all figures as JSON");
  app.add_flag("--html", options.html, "write a page for a browser, complete in one file")
      ->excludes(json);
  app.add_option("-o,--output", options.output, "file to write; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--limit", options.limit, "rows of each list (20; on a page 300)")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows));
  add_color_option(app, options.color);
  const Usage usage = {"BASE NEW",
                       {"shadowprof diff --limit 5 before.json after.json",
                        "shadowprof diff --html -o changes.html before.json after.json"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status printed = print_diff(options); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
