// SPDX-License-Identifier: MIT
//
// `shadowprof report`: the hotlists of a profile, for people as text or a page, for programs as
// JSON.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/progress.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare_files.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "profile/file/json_file.h"
#include "profile/thread_view.h"
#include "report/code_facts.h"
#include "report/html_report.h"
#include "report/selection.h"
#include "report/text_report.h"
#include "report/thread_json.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {
namespace {

using profile::Profile;

struct ReportOptions {
  std::string file = kDefaultProfile;
  std::string now;  // "": `file` alone
  bool json = false;
  bool html = false;
  std::string output = "-";
  std::optional<size_t> limit;
  std::string sort;  // empty: as the file has them
  std::string filter;
  bool threads = false;
  std::string thread;  // empty: all of them
  std::string color = "auto";
  std::string source_root;
};

// The file's hotlists may be shorter than what is asked for; the tables have every row.
void extend_hotlists(Profile& profile, size_t limit, const symbols::ModuleSet* files) {
  bool is_short = false;
  profile::for_each_hotlist([&](const char*, auto list, profile::Stored, auto all) {
    const size_t have = (profile.hotlists.*list).size();
    is_short |= have < limit && have < all(profile);
  });
  if (!is_short) return;
  const report::CodeFacts listed(profile, nullptr);
  for (auto& row : profile.tables.values) row.text = listed.instruction(row.at);
  const report::CodeFacts code(profile, files);
  profile.hotlists =
      profile::compute_hotlists(profile, limit, [&](profile::CodeRef at) { return code.line(at); });
}

report::TextOptions text_options(const ReportOptions& options, size_t limit) {
  report::TextOptions text;
  text.columns = report::terminal_columns(STDOUT_FILENO);
  text.limit = limit;
  text.filtered = !options.filter.empty();
  text.sort = options.sort;
  text.color = report::use_color(options.output == "-" ? options.color : "never", STDOUT_FILENO);
  return text;
}

void note_selection(Profile& profile, const ReportOptions& options) {
  if (!report::select_rows(profile.hotlists, options.sort, options.filter))
    info("--filter {}: no row of the profile has this in a function, file or module",
         options.filter);
}

void shorten_lists(Profile& profile, size_t limit) {
  profile::for_each_hotlist([&](const char*, auto list, profile::Stored, auto) {
    auto& rows = profile.hotlists.*list;
    rows.resize(std::min(rows.size(), limit));
  });
}

// Its threads, or what some of them did.
Result<std::string> make_thread_report(Profile& profile, const ReportOptions& options,
                                       size_t limit) {
  report::TextOptions text = text_options(options, limit);
  if (options.threads) {
    if (profile.threads.empty()) return fail("{} does not know its threads", options.file);
    return options.json ? report::threads_json(profile) : report::render_threads(profile, text);
  }
  SP_ASSIGN(const std::vector<uint32_t> threads, profile::find_threads(profile, options.thread));
  const std::string head = options.json ? "" : report::render_head(profile, text);
  const bool choosy = !options.sort.empty() || !options.filter.empty();
  const profile::ThreadPart part =
      profile::keep_threads(profile, threads, choosy ? kMostRows : limit);
  note_selection(profile, options);
  if (options.json) {
    shorten_lists(profile, limit);
    return report::part_json(profile, part);
  }
  text.of_threads = true;
  return head + report::render_part(profile, part, text);
}

// What goes with neither: they are about functions.
Status check_thread_options(const ReportOptions& options) {
  const bool by_calls =
      options.sort == "total" || options.sort == "calls" || options.sort == "loops";
  if (!options.threads && options.thread.empty()) return {};
  if (options.threads && !options.thread.empty())
    return fail("--threads lists all of them: --thread chooses among them");
  if (options.html) return fail("--threads and --thread are for text and JSON");
  if (options.threads && (!options.filter.empty() || !options.sort.empty()))
    return fail("--sort and --filter are for functions, and --threads lists threads");
  if (by_calls) return fail("--sort {}: calls and loops are not known by thread", options.sort);
  return {};
}

Result<std::string> make_report(const ReportOptions& options) {
  SP_TRY(check_thread_options(options));
  Progress progress("reading " + options.file);
  SP_ASSIGN(Profile profile, read_given_profile(options.file));
  const size_t limit = options.limit.value_or(options.html ? kPageRows : kTextRows);
  const symbols::ModuleSet modules(profile.modules);
  const bool choosy = !options.sort.empty() || !options.filter.empty();
  if (options.html && options.json) return fail("--html and --json do not go together");
  if (options.html && choosy)
    return fail("--sort and --filter are for text and JSON: the page sorts and searches itself");
  if (options.sort == "time" && !profile.time.is_known())
    return fail("{} has no processor time: it is of full mode, or the kernel permitted no clock",
                options.file);
  if (options.threads || !options.thread.empty())
    return make_thread_report(profile, options, limit);
  progress.set(options.html ? "making the page" : "making the report");
  extend_hotlists(profile, choosy ? kMostRows : limit, options.html ? &modules : nullptr);
  note_selection(profile, options);
  if (options.html) {
    report::HtmlOptions html;
    html.rows = limit;
    SP_ASSIGN(html.sources, report::source_rules(profile, options.file, options.source_root));
    return report::render_html(profile, modules, html);
  }
  if (options.json) {
    shorten_lists(profile, limit);
    return profile::hotlists_json(profile.hotlists);
  }
  report::TextOptions text = text_options(options, limit);
  text.files = &modules;
  return report::render_text(profile, text);
}

// Two profiles: what changed from `file` to `now`.
Status write_changes(const ReportOptions& options) {
  if (!options.html)
    return fail(
        "two profiles are compared on a page (--html); shadowprof diff prints what changed");
  if (options.json) return fail("--json is for the report of one profile, or for shadowprof diff");
  if (options.threads || !options.thread.empty())
    return fail("--threads and --thread are for the report of one profile");
  if (!options.sort.empty() || !options.filter.empty())
    return fail("--sort and --filter are for text and JSON: the page sorts and searches itself");
  if (!options.source_root.empty())
    return fail("--source-root is for the page of one profile: that of two shows no source");
  return write_diff_page(options.file, options.now, options.limit.value_or(kPageRows),
                         options.output);
}

Status print_report(const ReportOptions& options) {
  if (!options.now.empty()) return write_changes(options);
  SP_ASSIGN(const std::string text, make_report(options));
  return write_text(text, options.output);
}

}  // namespace

int report_main(int argc, char** argv) {
  CLI::App app("Shows what is hot in a profile.", "shadowprof report");
  ReportOptions options;
  app.add_option("FILE", options.file, "the profile")->capture_default_str();
  app.add_option("NEW", options.now, "another one: the page (--html) shows what changed to it");
  app.add_flag("--json", options.json, "print the hotlists as JSON");
  app.add_flag("--html", options.html, "write a page for a browser, complete in one file");
  app.add_option("-o,--output", options.output, "file to write; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--limit", options.limit, "rows of each list (20; on a page 300)")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows));
  app.add_option("--sort", options.sort,
                 "of functions: time, instructions (or self), total, calls, loops or name "
                 "(default: time where the profile has it, else instructions)")
      ->type_name("KEY")
      ->check(one_of("order", {"time", "instructions", "self", "total", "calls", "loops", "name"}));
  app.add_option("--filter", options.filter, "only rows whose names contain this")
      ->type_name("TEXT");
  app.add_flag("--threads", options.threads, "only the list of threads, with all that is known");
  app.add_option("--thread", options.thread,
                 "only what threads of this name did, or the thread with this id")
      ->type_name("NAME|TID");
  app.add_option("--source-root", options.source_root,
                 "show source below DIR on a page, whoever may read it")
      ->type_name("DIR");
  add_debuginfod_option(app);
  add_color_option(app, options.color);
  const Usage usage = {
      "[FILE [NEW]]",
      {"shadowprof report", "shadowprof report --sort total --filter parse app.json",
       "shadowprof report --html -o app.html app.json",
       "shadowprof report --html -o changes.html before.json after.json"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status printed = print_report(options); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
