// SPDX-License-Identifier: MIT
//
// `shadowprof check`: fails when a program has become slower than its limits allow. Exit status 3
// for a regression, 0 for none, 125 when it is not decidable.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "cli/baselines.h"
#include "cli/check_output.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare_files.h"
#include "cli/exit_codes.h"
#include "kernel/table.h"
#include "profile/compare/limit_rule.h"
#include "report/check_report.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

using profile::LimitRule;
using report::Comparison;

struct CheckOptions {
  std::string base;
  std::string now;
  std::vector<std::string> limits;
  std::string format = "text";
  std::string output = "-";
  std::string source_root;
  std::string baseline;  // "": BASE
  std::string baseline_folder = kBaselineFolder;
  bool github = false;
};

struct Named {
  std::string name;
  std::string file;
};

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// A limit on a call that nobody can make would never fail.
Status check_name_of_call(const LimitRule& rule) {
  if (rule.subject != LimitRule::Subject::syscall) return {};
  const auto is_meant = [&](const kernel::SyscallRow& row) {
    return profile::matches_glob(rule.pattern, row.name);
  };
  if (std::ranges::any_of(kernel::all_syscalls(), is_meant)) return {};
  return fail("limit {}: there is no system call {}", rule.text, rule.pattern);
}

// "dir/sort.json.zst" -> "sort"; "" for what is not named like a profile.
std::string stem(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (std::string_view suffix : {".gz", ".zst"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  if (!name.ends_with(".json")) return "";
  name.remove_suffix(5);
  return std::string(name);
}

Result<std::map<std::string, std::string>> profiles_in(const std::string& directory) {
  struct Closer {
    void operator()(DIR* d) const { ::closedir(d); }
  };
  const std::unique_ptr<DIR, Closer> open(::opendir(directory.c_str()));
  if (!open) return fail_errno(errno, "cannot read {}", directory);
  std::map<std::string, std::string> files;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = stem(entry->d_name);
    if (name.empty()) continue;
    const auto [at, added] = files.try_emplace(
        name, (directory.ends_with('/') ? directory : directory + "/") + entry->d_name);
    if (!added) return fail("{} and {} have the same name", at->second, entry->d_name);
  }
  if (files.empty())
    return fail("there is no profile (*.json, *.json.gz, *.json.zst) in {}", directory);
  return files;
}

// NAME=FILE, or a file. What is there under the whole word is meant as it is.
Named parse_named(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || ::access(word.c_str(), F_OK) == 0)
    return {"", word};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

// The pairs of profiles that the two operands stand for.
Result<std::vector<std::pair<Named, std::string>>> pairs_of(const CheckOptions& options) {
  std::vector<std::pair<Named, std::string>> pairs;
  if (!is_directory(options.base)) {
    Named base = parse_named(options.base);
    Named now = parse_named(options.now);
    if (is_directory(now.file))
      return fail("{} is a directory: then {} must be one, too", now.file, base.file);
    if (base.name.empty()) base.name = now.name;
    return std::vector<std::pair<Named, std::string>>{{base, now.file}};
  }
  SP_ASSIGN(const auto base, profiles_in(options.base));
  if (!is_directory(options.now)) {
    Named now = parse_named(options.now);
    if (now.name.empty()) now.name = stem(now.file);
    const auto found = base.find(now.name);
    if (found == base.end())
      return fail("there is no baseline '{}' in {}", report::printable(now.name), options.base);
    return std::vector<std::pair<Named, std::string>>{{{now.name, found->second}, now.file}};
  }
  SP_ASSIGN(const auto now, profiles_in(options.now));
  for (const auto& [name, file] : base) {
    const auto found = now.find(name);
    if (found == now.end())
      return fail("{} has no profile '{}', of which there is a baseline", options.now,
                  report::printable(name));
    pairs.push_back({{name, file}, found->second});
  }
  for (const auto& [name, file] : now)
    if (!base.contains(name)) info("{} has no baseline yet", report::printable(file));
  return pairs;
}

std::string working_directory() {
  char* path = ::realpath(".", nullptr);
  const std::string result = path == nullptr ? "" : path;
  std::free(path);
  return result;
}

// A sampled comparison that says nothing is no passed check.
Status judge_evidence(const profile::Diff& diff, const std::vector<LimitRule>& rules,
                      Comparison& c) {
  if (diff.exact) return {};
  const profile::Sensitivity seen = profile::sensitivity(diff, rules);
  if (seen.subject.empty()) {
    if (c.findings.empty()) c.seen = "noise hides every change that its limits are about";
  } else {
    c.seen =
        fmt::format("a change of {:.1f} % or more in {} ({:.1f} % of all) would have been seen",
                    100 * seen.change, seen.subject, 100 * seen.part);
  }
  const auto fails = [](const profile::Finding& f) {
    return f.severity == profile::Severity::error;
  };
  if (seen.decidable || std::ranges::any_of(c.findings, fails)) return {};
  return fail("not decidable: {} and {}: {}; profile for longer, or use --mode full", c.base_file,
              c.new_file, c.seen);
}

// What is not in a profile cannot be judged.
Status judge_completeness(const profile::Diff& diff, const Comparison& c) {
  if (!diff.base_incomplete.empty())
    return fail("not decidable: {} {}", c.base_file, diff.base_incomplete);
  if (!diff.new_incomplete.empty())
    return fail("not decidable: {} {}", c.new_file, diff.new_incomplete);
  return {};
}

// Annotations are shown at files of the repository: named relative to its top. Builds outside of
// the source tree name files by way of the build folder: /build/../src/file.cc.
void make_relative(std::string& file, const std::string& root) {
  file = std::filesystem::path(file).lexically_normal().string();
  std::string prefix = std::filesystem::path(root).lexically_normal().string();
  if (!prefix.ends_with('/')) prefix += '/';
  if (file.starts_with(prefix)) file.erase(0, prefix.size());
}

Result<std::vector<Comparison>> compare_all(const CheckOptions& options) {
  std::vector<LimitRule> rules;
  const auto& texts = options.limits.empty() ? profile::default_limit_rules() : options.limits;
  for (const std::string& text : texts) {
    SP_ASSIGN(LimitRule rule, profile::parse_limit_rule(text));
    SP_TRY(check_name_of_call(rule));
    rule.where_profiled = options.limits.empty();
    rules.push_back(std::move(rule));
  }
  const std::string root = options.source_root.empty() ? working_directory() : options.source_root;
  SP_ASSIGN(const auto pairs, pairs_of(options));
  std::vector<Comparison> all;
  for (const auto& [base, now] : pairs) {
    SP_ASSIGN(const ComparedFiles files, compare_files(base.file, now));
    const profile::Diff& diff = files.diff;
    Comparison c;
    c.name = base.name;
    c.base_file = base.file;
    c.new_file = now;
    c.exact = diff.exact;
    c.knows_totals = diff.knows_totals;
    c.instructions = diff.instructions;
    c.rules = texts;
    SP_TRY(judge_completeness(diff, c));
    SP_ASSIGN(c.findings, profile::check_limits(diff, rules));
    SP_TRY(judge_evidence(diff, rules, c));
    for (profile::Finding& f : c.findings) make_relative(f.file, root);
    all.push_back(std::move(c));
  }
  return all;
}

Result<int> check(const CheckOptions& options) {
  SP_ASSIGN(const std::vector<Comparison> all, compare_all(options));
  if (options.github) {
    SP_TRY(write_github(all, options.output == "-" ? kSarifFile : options.output));
  } else {
    SP_TRY(write_findings(all, *report::check_format_from(options.format), options.output));
  }
  for (const Comparison& c : all)
    for (const profile::Finding& f : c.findings)
      if (f.severity == profile::Severity::error) return kExitRegression;
  return kExitOk;
}

// With a baseline the only operand is NEW.
bool names_baseline(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) {
    return word == "--baseline" || word.starts_with("--baseline=");
  });
}

Status take_baseline(CheckOptions& options) {
  if (options.github && options.format != "text")
    return fail("--github writes three formats; --format is for one");
  if (options.baseline.empty()) return {};
  SP_TRY(check_baseline_name(options.baseline));
  const std::string file = baseline_file(options.baseline_folder, options.baseline);
  if (::access(file.c_str(), F_OK) != 0) {
    SP_ASSIGN(const std::vector<std::string> names, baseline_names(options.baseline_folder));
    return fail("there is no baseline '{}' in {}{}{}", options.baseline, options.baseline_folder,
                names.empty() ? "" : ": there are ", fmt::format("{}", fmt::join(names, ", ")));
  }
  options.base = options.baseline + "=" + file;
  return {};
}

std::string help_footer() {
  std::string text = "Limits unless some are given:\n";
  for (const std::string& rule : profile::default_limit_rules()) text += "  " + rule + "\n";
  return text + "\nExit status: 0 within all limits, 3 regression, 125 not decidable.";
}

}  // namespace

int check_main(int argc, char** argv) {
  CLI::App app("Fails when NEW exceeds limits on what may change from BASE.", "shadowprof check");
  CheckOptions options;
  if (!names_baseline(argc, argv)) {
    app.add_option("BASE", options.base, "profile before; NAME=FILE; or a directory of them")
        ->required();
  }
  app.add_option("NEW", options.now, "profile now; or a directory of them")->required();
  app.add_option("--baseline", options.baseline,
                 "instead of BASE: a baseline that was saved (shadowprof-baseline(1))")
      ->type_name("NAME");
  app.add_option("--baseline-dir", options.baseline_folder, "where baselines are")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--limit", options.limits,
                 "what may change, may be repeated (shadowprof-check(1))")
      ->type_name("RULE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--format", options.format, "text, markdown, github, sarif or junit")
      ->type_name("NAME")
      ->check(one_of("format", {"text", "markdown", "github", "sarif", "junit"}))
      ->capture_default_str();
  app.add_option("-o,--output", options.output, "where to write the findings")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_flag("--github", options.github,
               "annotations, step summary, and SARIF in -o (shadowprof.sarif), in one go");
  app.add_option("--source-root", options.source_root,
                 "name source files relative to DIR (here)")
      ->type_name("DIR");
  app.footer(help_footer());
  const Usage usage = {
      "BASE NEW",
      {"shadowprof check base.json new.json",
       "shadowprof check baselines/ new/ --format sarif -o check.sarif",
       "shadowprof check --baseline sort new.json --github",
       "shadowprof check base.json new.json \\",
       "  --limit 'function:parse:instructions<=+3%' \\",
       "  --limit 'calls:malloc<=+0' --limit 'warn:instructions<=+0.5%'"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status sound = take_baseline(options); !sound) {
    error("{} (see shadowprof check --help)", sound.error().message);
    return kExitOwnFailure;
  }
  const auto result = check(options);
  if (!result) {
    error("{}", result.error().message);
    return kExitOwnFailure;
  }
  return *result;
}

}  // namespace shadowprof::cli
