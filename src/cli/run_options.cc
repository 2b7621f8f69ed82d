// SPDX-License-Identifier: MIT
#include "cli/run_options.h"

#include <algorithm>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/debuginfod_option.h"
#include "cli/exit_codes.h"
#include "machine/cpu_model.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

constexpr std::string_view kModes[] = {"shadow", "burst", "full"};
constexpr std::string_view kClocks[] = {"virtual", "real"};
constexpr std::string_view kCpuFeatures[] = {"native",    "host",      "baseline",
                                             "x86-64-v2", "x86-64-v3", "x86-64-v4"};

Status check_variables(const std::vector<std::string>& variables) {
  for (const std::string& variable : variables) {
    if (variable.find('=') == std::string::npos || variable.starts_with('=')) {
      return fail("option --env needs NAME=VALUE, not '{}'", report::printable(variable));
    }
  }
  return {};
}

Status check_processor(const RunOptions& options) {
  if (options.mode != "full" && options.cpu_features != "native") {
    return fail("option --cpu-features is for --mode full");
  }
  const machine::CpuModel* processor = machine::CpuModel::find(options.cpu_features);
  if (const std::string missing = processor ? processor->missing_here() : ""; !missing.empty()) {
    return fail("this processor cannot be an {}: it lacks {}", options.cpu_features, missing);
  }
  return {};
}

Status check_machine(const RunOptions& options) {
  if (!options.clock.empty() && (options.mode != "full" || !options.deterministic))
    return fail("option --clock is for --mode full with --deterministic");
  if (options.schedule_seed && (options.mode != "full" || !options.deterministic))
    return fail("option --schedule-seed is for --mode full with --deterministic");
  if (options.schedule_seed && options.clock == "real")
    return fail(
        "option --schedule-seed needs the virtual clock: with --clock real threads run as they do");
  return {};
}

Status check_region(const RunOptions& options) {
  const bool is_between = !options.from.empty() || !options.to.empty();
  if (options.mode != "full" && (is_between || !options.within.empty()))
    return fail("option {} is for --mode full", is_between ? "--from" : "--within");
  if (is_between && !options.within.empty())
    return fail("--within and --from are two regions: a profile has one");
  if (is_between && (options.from.empty() || options.to.empty()))
    return fail("option {} needs {}", options.from.empty() ? "--to" : "--from",
                options.from.empty() ? "--from" : "--to");
  return {};
}

Status check_combination(const RunOptions& options) {
  if (options.mode != "full" && options.exact_inclusive) {
    return fail("option --exact-inclusive is for --mode full");
  }
  SP_TRY(check_program_options(options));
  SP_TRY(options.wanted.accepted_by(options.sampling.chosen_engine(options.mode)));
  const bool has_bouts = options.mode == "full" ? !options.exact_inclusive && !options.has_region()
                                                : options.sampling.times_in_bouts(options.mode);
  SP_TRY(options.wanted.check_conditions(options.mode, has_bouts));
  return options.sampling.check(options.mode, !options.follow);
}

}  // namespace

sample::Collection RunOptions::collection() const {
  sample::Collection collection = wanted.collection(mode, sampling.seed(mode));
  collection.exact_inclusive = exact_inclusive;
  return collection;
}

std::map<std::string, std::string> RunOptions::recorded() const {
  std::map<std::string, std::string> options = {
      {"follow", follow ? "true" : "false"},
      {"deterministic", deterministic ? "true" : "false"},
      {"cpu_features", cpu_features},
      {"exact_inclusive", exact_inclusive ? "true" : "false"}};
  if (!within.empty()) options["within"] = within;
  if (!from.empty()) options["from"] = from;
  if (!to.empty()) options["to"] = to;
  if (no_exec) options["no_exec"] = "true";
  if (clean_environment) options["clean_env"] = "true";
  if (schedule_seed) options["schedule_seed"] = std::to_string(*schedule_seed);
  if (deterministic && mode == "full") options["clock"] = clock == "real" ? "real" : "virtual";
  wanted.record_in(options);
  if (mode != "full") sampling.record_in(mode, options);
  return options;
}

std::optional<int> take_command(const CLI::App& app, std::vector<std::string> rest,
                                RunOptions& options) {
  if (!rest.empty() && rest[0] == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest[0].size() > 1 && rest[0].starts_with('-')) {
    std::string word = rest[0].starts_with("--") ? rest[0] : rest[0].substr(0, 2);
    error("{} (see {} --help)", no_such_option(app, word), app.get_name());
    return kExitOwnFailure;
  }
  if (rest.empty()) {
    error("no program given (see {} --help)", app.get_name());
    return kExitOwnFailure;
  }
  options.command = std::move(rest);
  return std::nullopt;
}

Status check_program_options(const RunOptions& options) {
  SP_TRY(check_processor(options));
  SP_TRY(check_machine(options));
  SP_TRY(check_region(options));
  return check_variables(options.variables);
}

void add_program_options(CLI::App& app, RunOptions& options) {
  app.add_flag("-f,--follow", options.follow, "child processes, too");
  app.add_flag("--no-exec", options.no_exec,
               "if it executes another program, leave that unprofiled");
  const CLI::Validator is_named(
      [](std::string& word) { return word.empty() ? "it is empty" : std::string(); }, "");
  app.add_option("--within", options.within, "only what FUNCTION executes, or what marks enclose")
      ->type_name("FUNCTION")
      ->check(is_named);
  app.add_option("--from", options.from, "only from an entry of A to the next entry of B")
      ->type_name("A --to B")
      ->check(is_named);
  app.add_option("--to", options.to)->type_name("FUNCTION")->check(is_named)->group("");
  app.add_flag("--deterministic", options.deterministic,
               "one machine, fixed addresses: always the same counts");
  app.add_option("--clock", options.clock, "with --deterministic: virtual, real (virtual)")
      ->type_name("CLOCK")
      ->check(CLI::Validator(
          [](std::string& word) { return refuse_unless_one_of("clock", word, kClocks); }, ""));
  app.add_option("--schedule-seed", options.schedule_seed,
                 "with --deterministic: draw the order of threads by N")
      ->type_name("N");
  app.add_option("--cpu-features", options.cpu_features,
                 "native, host, baseline, x86-64-v2, -v3, -v4")
      ->type_name("SET")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](std::string& word) { return refuse_unless_one_of("set", word, kCpuFeatures); }, ""));
  app.add_flag("--clean-env", options.clean_environment,
               "an environment of PATH, HOME, LANG and --env only");
  app.add_option("--env", options.variables, "set an environment variable; may be repeated")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::optional<int> parse_run_options(int argc, char** argv, RunOptions& options) {
  CLI::App app{"Runs PROGRAM and profiles it: by samples, or all of it (--mode full).",
               "shadowprof run"};
  app.get_help_ptr()->group("");  // the screen is full
  app.add_option("-o,--output", options.output,
                 "- or a file; .gz, .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option(
         "--mode", options.mode,
         "samples: shadow, burst; the whole run: full")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](std::string& word) { return refuse_unless_one_of("mode", word, kModes); }, ""));
  add_program_options(app, options);
  app.add_flag("--exact-inclusive", options.exact_inclusive,
               "follow calls and returns; several times slower");
  options.wanted.add_to(app);
  options.sampling.add_to(app);
  app.add_option("--top", options.top, "rows of a hotlist (20); seed of random moments")
      ->type_name("N --seed N")
      ->check(CLI::Range(size_t{0}, kMostRows));
  add_debuginfod_option(app);
  app.add_flag("-q,--quiet", options.quiet,
               "say nothing but errors, and what is not in the profile");
  app.add_flag("-v,--verbose", options.verbose, "say more: the hottest functions, calls and edges");
  app.prefix_command();
  const Usage usage = {"[--] PROGRAM [ARG...]",
                       {"shadowprof run ./app input",
                        "shadowprof run --mode full --profile all -o gzip.json -- gzip -k file"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return status;
  const bool in_part = options.sampling.captures_in_part(options.mode);
  options.wanted.choose_profiles(options.mode, options.sampling.chosen_engine(options.mode),
                                 {.values = in_part && !options.follow, .latencies = in_part});
  if (const Status sound = check_combination(options); !sound) {
    error("{}", sound.error().message);
    return kExitOwnFailure;
  }
  return take_command(app, app.remaining(), options);
}

}  // namespace shadowprof::cli
