// SPDX-License-Identifier: MIT
//
// `shadowprof annotate`: one function's source and instructions, with what a profile counted.
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "profile/file/json_file.h"
#include "report/annotation.h"
#include "report/columns.h"
#include "report/text_report.h"

namespace shadowprof::cli {
namespace {

const std::map<std::string, report::AnnotationView> kViews = {
    {"both", report::AnnotationView::both},
    {"source", report::AnnotationView::source},
    {"code", report::AnnotationView::code}};

struct AnnotateCommand {
  std::vector<std::string> operands;  // [FILE] FUNCTION
  std::string file = kDefaultProfile;
  std::string function;
  std::string view = "both";
  std::string color = "auto";
  std::string source_root;
  bool json = false;
  bool all = false;
  bool inlined = false;
  bool list = false;
};

// A name a line, as far as names can be typed; for shells, which complete them.
Status print_names(const std::string& file) {
  SP_ASSIGN(const profile::Profile profile, read_given_profile(file));
  std::set<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name.starts_with("function@")) return;  // made up from its offset
    names.insert(report::function_or_address({"", 0, name, "", 0}));
  };
  for (const profile::Function& f : profile.functions)
    if (f.self != 0) add(f.name);
  for (const profile::InlinedFunction& f : profile.inlined) add(f.name);
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return print(text);
}

// A function's code if it executed; else, or where that is asked for, what was inlined of it.
Result<report::Annotation> annotation_of(const profile::Profile& profile,
                                         const AnnotateCommand& command,
                                         report::SourceFiles& sources) {
  const symbols::ModuleSet modules(profile.modules);
  const auto function = report::choose_function(profile, command.function);
  if (function && !command.inlined) return report::annotate(profile, modules, **function, sources);
  const bool is_known = !report::functions_called(profile, command.function).empty() ||
                        report::inlined_called(profile, command.function).empty();
  if (!command.inlined && is_known) return tl::unexpected(function.error());
  SP_ASSIGN(const profile::InlinedFunction* inlined,
            report::choose_inlined(profile, command.function));
  return report::annotate_inlined(profile, modules, *inlined, sources);
}

// A function may be named like a file.
bool is_profile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return false;
  return profile::is_profile_file(path).value_or(false);
}

Status print_annotation(const AnnotateCommand& command) {
  SP_ASSIGN(const profile::Profile profile, read_given_profile(command.file));
  SP_ASSIGN(report::SourceRules rules,
            report::source_rules(profile, command.file, command.source_root));
  report::SourceFiles sources(std::move(rules));
  SP_ASSIGN(const report::Annotation annotation, annotation_of(profile, command, sources));
  if (command.json) return print(report::annotation_json(annotation));
  report::AnnotateOptions options;
  options.columns = report::terminal_columns(STDOUT_FILENO);
  options.color = report::use_color(command.color, STDOUT_FILENO);
  options.view = kViews.at(command.view);
  options.all = command.all;
  return print(report::render_annotation(annotation, options));
}

}  // namespace

int annotate_main(int argc, char** argv) {
  CLI::App app("Shows a function's source and instructions with what a profile counted.",
               "shadowprof annotate");
  AnnotateCommand command;
  app.add_option(
         "FUNCTION", command.operands,
         "its name, with or without parameters; or MODULE+0xOFFSET; before it may stand the "
         "profile (shadowprof.json)")
      ->type_name("")
      ->expected(0, 2);
  app.add_option("--view", command.view, "both, source or code")
      ->type_name("VIEW")
      ->check(one_of("view", {"both", "source", "code"}))
      ->capture_default_str();
  app.add_flag("--all", command.all, "also long stretches that did not execute");
  app.add_flag("--inlined", command.inlined, "the places where it was inlined, not its own code");
  app.add_flag("--json", command.json, "print JSON");
  app.add_flag("--list", command.list, "print the names of functions, and do nothing else");
  app.add_option("--source-root", command.source_root,
                 "show source below DIR, whoever may read it; relative names are below DIR")
      ->type_name("DIR");
  add_debuginfod_option(app);
  add_color_option(app, command.color);
  const Usage usage = {
      "[FILE] FUNCTION",
      {"shadowprof annotate main", "shadowprof annotate --view source app.json 'Table::find'",
       "shadowprof annotate app.json libc.so.6+0x9d3f0"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (command.list) {
    if (command.operands.size() > 1) {
      error("--list takes a profile only (see shadowprof annotate --help)");
      return kExitOwnFailure;
    }
    if (!command.operands.empty()) command.file = command.operands.front();
    if (const Status printed = print_names(command.file); !printed) {
      error("{}", printed.error().message);
      return kExitOwnFailure;
    }
    return kExitOk;
  }
  const bool no_function = command.operands.empty() ||
                           (command.operands.size() == 1 && is_profile(command.operands.front()));
  if (no_function) {
    error("no function given (see shadowprof annotate --help)");
    return kExitOwnFailure;
  }
  command.function = command.operands.back();
  if (command.operands.size() == 2) command.file = command.operands.front();
  if (const Status printed = print_annotation(command); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
