// SPDX-License-Identifier: MIT
//
// `shadowprof export`: a profile as the file of another tool.
#include <optional>
#include <string>

#include "base/log.h"
#include "base/progress.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "profile/file/compression.h"
#include "profile/file/json_file.h"
#include "profile/file/output_file.h"
#include "report/check_report.h"
#include "report/columns.h"
#include "report/export.h"
#include "report/otlp_push.h"

namespace shadowprof::cli {
namespace {

struct ExportOptions {
  std::string file = kDefaultProfile;
  std::string format;
  std::string output = "-";
  std::string module;
  std::string host;
  std::string service;
  std::optional<std::string> push;  // where to
  bool list = false;
};

std::string format_list() {
  std::string text;
  for (const report::ExportFormat& f : report::export_formats())
    text += fmt::format("{:<18} {}\n", f.name, f.summary);
  return text;
}

Status push(const report::PushTarget& target, const std::string& profiles) {
  SP_ASSIGN(const std::string remark, report::push_otlp(target, profiles));
  if (!remark.empty()) warn("{}", remark);
  return {};
}

Status export_profile(const ExportOptions& options) {
  const report::ExportFormat* format = report::find_export_format(options.format);
  if (format == nullptr) {
    if (report::check_format_from(options.format))
      return fail("{} is a format of shadowprof check (see shadowprof export --list)",
                  options.format);
    std::vector<std::string> names;
    for (const report::ExportFormat& f : report::export_formats()) names.emplace_back(f.name);
    const std::string near = nearest(options.format, names, 2);
    return fail("there is no format '{}'{} (see shadowprof export --list)",
                report::printable(options.format),
                near.empty() ? "" : ": did you mean " + near + "?");
  }
  if (!options.module.empty() && !format->one_module)
    return fail(
        "{} describes all code of a profile: --module is for formats that describe one file",
        format->name);
  if (!(options.host.empty() && options.service.empty()) && !format->has_origin)
    return fail(
        "{} does not say where a profile is from: --host and --service are for ndjson and otlp",
        format->name);
  std::optional<report::PushTarget> target;
  if (options.push) {
    if (format->name != "otlp") return fail("--push sends otlp, and not {}", format->name);
    if (options.output != "-") return fail("--push sends the profile: there is no file for -o");
    SP_ASSIGN(target, report::push_target(*options.push));
  }
  Progress progress("reading " + options.file);
  SP_ASSIGN(const profile::Profile profile, read_given_profile(options.file));
  progress.set("exporting as " + options.format);
  const symbols::ModuleSet modules(profile.modules);
  report::ExportInput input{profile, modules, 0, options.host, options.service};
  if (format->one_module) {
    SP_ASSIGN(input.module, report::choose_module(profile, options.module));
  }
  SP_ASSIGN(std::string text, format->make(input));
  // A file called .gz is compressed as it is written.
  if (format->gzipped && profile::compression_for(options.output) == profile::Compression::none)
    text = profile::compress(text, profile::Compression::gzip);
  if (target) {
    progress.set("sending to " + report::printable(target->url));
    const Status sent = push(*target, text);
    progress.end();
    return sent;
  }
  progress.end();
  if (options.output == "-") return print(text);
  SP_ASSIGN(profile::OutputFile out, profile::OutputFile::open(options.output));
  out.write(text);
  return out.finish();
}

}  // namespace

int export_main(int argc, char** argv) {
  CLI::App app("Writes a profile as the file of another tool.", "shadowprof export");
  ExportOptions options;
  app.add_option("FILE", options.file, "the profile")->capture_default_str();
  app.add_option("--format", options.format, "what to write (see --list)")->type_name("NAME");
  app.add_option("-o,--output", options.output, "file to write; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--host", options.host, "host that was profiled, for ndjson and otlp")
      ->type_name("NAME");
  app.add_option("--module", options.module,
                 "file to describe, where a format describes one (the program)")
      ->type_name("NAME");
  app.add_option("--push", options.push, "send otlp to a collector, by HTTP")->type_name("URL");
  app.add_option("--service", options.service, "service that it is part of, likewise (the program)")
      ->type_name("NAME");
  add_debuginfod_option(app);
  app.add_flag("--list", options.list, "list the formats");
  app.footer("Formats:\n" + format_list());
  const Usage usage = {"--format NAME [FILE]",
                       {"shadowprof export --format callgrind -o callgrind.out app.json",
                        "shadowprof export --format folded app.json | flamegraph.pl > app.svg",
                        "shadowprof export --format llvm-sample -o app.prof app.json",
                        "clang -O2 -g -fprofile-sample-use=app.prof app.c"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  Status done;
  if (options.list)
    done = print(format_list());
  else if (options.format.empty())
    done = fail("no --format given (see shadowprof export --list)");
  else
    done = export_profile(options);
  if (done) return kExitOk;
  error("{}", done.error().message);
  return kExitOwnFailure;
}

}  // namespace shadowprof::cli
