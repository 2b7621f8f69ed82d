// SPDX-License-Identifier: MIT
//
// `shadowprof report`: the hotlists of a profile, for people as text or a page, for programs as
// JSON.
#include <unistd.h>

#include <map>
#include <string>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "profile/file/json_file.h"
#include "profile/file/output_file.h"
#include "report/html_report.h"
#include "report/selection.h"
#include "report/text_report.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kTextRows = 20;
constexpr size_t kPageRows = 300;

using profile::Place;
using profile::Profile;
using profile::SourceLine;

struct ReportOptions {
  std::string file = kDefaultProfile;
  bool json = false;
  bool html = false;
  std::string output = "-";
  std::optional<size_t> limit;
  std::string sort;  // empty: as the file has them
  std::string filter;
  std::string color = "auto";
  std::string source_root;
};

// The file's hotlists may be shorter than what is asked for. The tables have every row, but only
// the hotlists have source lines of places within functions; `files` may know those of the others.
void extend_hotlists(Profile& profile, size_t limit, const symbols::ModuleSet* files) {
  const profile::Hotlists& old = profile.hotlists;
  const auto short_of = [&](size_t have, size_t all) { return have < limit && have < all; };
  if (!short_of(old.methods.size(), profile.functions.size()) &&
      !short_of(old.inlined.size(), profile.inlined.size()) &&
      !short_of(old.call_pairs.size(), profile.tables.calls.size()) &&
      !short_of(old.contexts.size(), profile.tables.contexts.size()) &&
      !short_of(old.edges.size(), profile.tables.edges.size()) &&
      !short_of(old.paths.size(), profile.tables.paths.size()) &&
      !short_of(old.load_latency.size(), profile.tables.latencies.size()) &&
      !short_of(old.latency_pages.size(), profile.tables.latency_pages.size()) &&
      !short_of(old.latency_values.size(), profile.tables.latency_values.size()) &&
      !short_of(old.cache_lines.size(), profile.tables.cache_lines.size()) &&
      !short_of(old.values.size(), profile.tables.values.size()) &&
      !short_of(old.arguments.size(), profile.tables.arguments.size()))
    return;
  std::map<std::pair<std::string, uint64_t>, SourceLine> known;
  const auto note = [&](const Place& p) {
    if (!p.file.empty()) known[{p.module, p.offset}] = {p.file, p.line};
  };
  for (const auto& row : old.call_pairs) {
    note(row.site);
    note(row.callee);
  }
  for (const auto& row : old.edges) {
    note(row.from);
    note(row.to);
  }
  for (const auto& row : old.paths) {
    if (row.from) note(*row.from);
    for (const auto& block : row.blocks) note(block);
  }
  for (const auto& row : old.load_latency) note(row.at);
  for (const auto& row : old.latency_pages)
    if (row.load) note(*row.load);
  for (const auto& row : old.latency_values)
    if (row.load) note(*row.load);
  for (const auto& row : old.values) note(row.at);
  for (const auto& row : old.arguments) {
    note(row.site);
    note(row.callee);
  }
  for (const auto& row : old.targets) note(row.at);
  // Disassembly is in the hotlist only.
  std::map<std::pair<std::string, uint64_t>, std::string> text;
  for (const auto& row : old.values) text[{row.at.module, row.at.offset}] = row.disassembly;
  for (auto& row : profile.tables.values) {
    const auto known_text = text.find({profile.modules[row.at.module].path, row.at.offset});
    if (known_text != text.end()) row.text = known_text->second;
  }
  profile.hotlists = profile::compute_hotlists(
      profile, limit, [&](profile::CodeRef at) -> std::optional<SourceLine> {
        const auto line = known.find({profile.modules[at.module].path, at.offset});
        if (line != known.end()) return line->second;
        return files == nullptr ? std::nullopt : files->line(at);
      });
}

template <typename Rows>
void shorten(Rows& rows, size_t limit) {
  if (rows.size() > limit) rows.resize(limit);
}

Status write(const std::string& text, const std::string& output) {
  if (output == "-") return print(text);
  SP_ASSIGN(profile::OutputFile out, profile::OutputFile::open(output));
  out.write(text);
  return out.finish();
}

Status print_report(const ReportOptions& options) {
  SP_ASSIGN(Profile profile, read_given_profile(options.file));
  const size_t limit = options.limit.value_or(options.html ? kPageRows : kTextRows);
  const symbols::ModuleSet modules(profile.modules);
  const bool choosy = !options.sort.empty() || !options.filter.empty();
  if (options.html && choosy)
    return fail("--sort and --filter are for text and JSON: the page sorts and searches itself");
  extend_hotlists(profile, choosy ? kMostRows : limit, options.html ? &modules : nullptr);
  if (options.sort == "time" && !profile.time.is_known())
    return fail("{} has no processor time: it is of full mode, or the kernel permitted no clock",
                options.file);
  if (!report::select_rows(profile.hotlists, options.sort, options.filter))
    info("--filter {}: no row of the profile has this in a function, file or module",
         options.filter);
  if (options.html) {
    report::HtmlOptions html;
    html.rows = limit;
    SP_ASSIGN(html.sources, report::source_rules(profile, options.file, options.source_root));
    return write(report::render_html(profile, modules, html), options.output);
  }
  if (options.json) {
    shorten(profile.hotlists.methods, limit);
    shorten(profile.hotlists.inlined, limit);
    shorten(profile.hotlists.call_pairs, limit);
    shorten(profile.hotlists.contexts, limit);
    shorten(profile.hotlists.edges, limit);
    shorten(profile.hotlists.paths, limit);
    shorten(profile.hotlists.load_latency, limit);
    shorten(profile.hotlists.latency_pages, limit);
    shorten(profile.hotlists.latency_values, limit);
    shorten(profile.hotlists.cache_lines, limit);
    shorten(profile.hotlists.values, limit);
    shorten(profile.hotlists.arguments, limit);
    shorten(profile.hotlists.targets, limit);
    return write(profile::hotlists_json(profile.hotlists), options.output);
  }
  report::TextOptions text;
  text.columns = report::terminal_columns(STDOUT_FILENO);
  text.limit = limit;
  text.filtered = !options.filter.empty();
  text.sort = options.sort;
  text.color = report::use_color(options.output == "-" ? options.color : "never", STDOUT_FILENO);
  return write(report::render_text(profile, text), options.output);
}

}  // namespace

int report_main(int argc, char** argv) {
  CLI::App app("Shows what is hot in a profile.", "shadowprof report");
  ReportOptions options;
  app.add_option("FILE", options.file, "the profile")->capture_default_str();
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
  app.add_option("--source-root", options.source_root,
                 "show source below DIR on a page, whoever may read it")
      ->type_name("DIR");
  add_debuginfod_option(app);
  app.add_option("--color", options.color, "always, auto or never")
      ->type_name("WHEN")
      ->check(one_of("choice", {"always", "auto", "never"}))
      ->capture_default_str();
  app.footer(
      "Examples:\n"
      "  shadowprof report\n"
      "  shadowprof report --sort total --filter parse app.json\n"
      "  shadowprof report --html -o app.html app.json");
  if (const auto status = parse_command_line(app, "[FILE]", argc, argv)) return *status;
  if (const Status printed = print_report(options); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
