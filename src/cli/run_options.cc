// SPDX-License-Identifier: MIT
#include "cli/run_options.h"

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/exit_codes.h"
#include "report/columns.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kMostRows = 1'000'000;

// Documented for later versions: refused by name, so that nobody takes a full run for something
// else.
constexpr std::string_view kUnbuiltOptions[] = {
    "--engine", "--burst", "--max-memory", "--probe", "--plugin", "--color",
};
constexpr std::string_view kUnbuiltModes[] = {"burst"};
constexpr std::string_view kUnbuiltProfiles[] = {"stream", "hazard", "all"};

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Accepts `built`; what is planned and what is unknown get sentences of their own.
template <size_t N>
CLI::Validator one_of(std::string what, std::vector<std::string> built,
                      const std::string_view (&unbuilt)[N]) {
  const auto check = [what, built = std::move(built), &unbuilt](std::string& value) -> std::string {
    if (std::find(built.begin(), built.end(), value) != built.end()) return {};
    if (contains(unbuilt, value)) return what + " " + value + " is not built yet";
    return "there is no " + what + " '" + report::printable(value) + "'";
  };
  return CLI::Validator(check, "");
}

// The word that stopped our options is an option itself: unknown, or not for this version.
void refuse_option(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  if (!name.starts_with("--")) name = name.substr(0, 2);
  if (contains(kUnbuiltOptions, name)) {
    error("option {} is not built yet (see shadowprof run --help)", name);
  } else {
    error("there is no option {} (see shadowprof run --help)", report::printable(word));
  }
}

// Takes the program's command from what our options left.
std::optional<int> take_command(std::vector<std::string> rest, RunOptions& options) {
  if (!rest.empty() && rest[0] == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest[0].size() > 1 && rest[0].starts_with('-')) {
    refuse_option(rest[0]);
    return kExitOwnFailure;
  }
  if (rest.empty()) {
    error("no program given (see shadowprof run --help)");
    return kExitOwnFailure;
  }
  options.command = std::move(rest);
  return std::nullopt;
}

}  // namespace

std::optional<collect::ValueCondition> parse_condition(std::string_view text) {
  collect::ValueCondition c;
  if (text.empty()) return c;
  unsigned long long burst = 1, every = 1;
  int end = 0;
  const std::string whole(text);
  if (text != "values=all" &&
      (std::sscanf(whole.c_str(), "values=burst:%llu,every:%llu%n", &burst, &every, &end) != 2 ||
       static_cast<size_t>(end) != whole.size() || burst == 0 || every < burst ||
       every > 1'000'000'000'000))
    return std::nullopt;
  c.burst = burst;
  c.every = every;
  return c;
}

bool RunOptions::wants(std::string_view profile) const {
  return std::find(profiles.begin(), profiles.end(), profile) != profiles.end();
}

sample::Collection RunOptions::collection() const {
  sample::Collection collection;
  collection.exact_inclusive = exact_inclusive;
  collection.edges = wants("edge");
  collection.calls = wants("call") || wants("method");
  collection.paths = wants("path");
  if (path_scope == "intra") collection.path_scope = collect::PathScope::intra;
  collection.latencies = wants("latency");
  collection.values = wants("value");
  if (hotlist == "tnv") {
    collection.value_options.hotlist = profile::HotlistKind::tnv;
    collection.value_options.capacity = profile::ValueHotlist::kTnvCapacity;
  }
  collection.value_options.by_call_site = value_context == "call";
  // A sample is short: all of it is looked at.
  const bool all = value_condition.empty() && mode == "shadow";
  collection.value_options.condition = *parse_condition(all ? "values=all" : value_condition);
  collection.value_options.seed = sampling.seed;
  return collection;
}

std::map<std::string, std::string> RunOptions::recorded() const {
  std::string list;
  for (const std::string& profile : profiles) list += (list.empty() ? "" : ",") + profile;
  std::map<std::string, std::string> options = {
      {"profile", list},
      {"follow", follow ? "true" : "false"},
      {"deterministic", deterministic ? "true" : "false"},
      {"exact_inclusive", exact_inclusive ? "true" : "false"},
      {"path_scope", path_scope},
      {"hotlist", hotlist},
      {"value_context", value_context},
      {"condition", value_condition}};
  if (mode != "full") sampling.record_in(options);
  return options;
}

std::optional<int> parse_run_options(int argc, char** argv, RunOptions& options) {
  CLI::App app{"Runs PROGRAM and profiles it from its first instruction to its end.",
               "shadowprof run"};
  app.add_option("-o,--output", options.output,
                 "profile to write; - is standard output; .gz and .zst compress")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--mode", options.mode,
                 "shadow: now and then a replica runs under the translator; full: the program does")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(one_of("mode", {"shadow", "full"}, kUnbuiltModes));
  app.add_option("--profile", options.profiles,
                 "what to collect: edge,call,method,path,value,latency; or none")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(one_of("profile", {"edge", "call", "method", "path", "value", "latency", "none"}, kUnbuiltProfiles));
  app.add_flag("-f,--follow", options.follow, "children and executed programs, too");
  app.add_flag("--deterministic", options.deterministic,
               "fixed addresses: the same counts run after run");
  app.add_flag("--exact-inclusive", options.exact_inclusive,
               "follow calls and returns: exact inclusive counts, several times slower");
  app.add_option("--path-scope", options.path_scope,
                 "inter: paths go through calls; intra: each function has its own")
      ->type_name("SCOPE")
      ->check(CLI::IsMember({"inter", "intra"}))
      ->capture_default_str();
  app.add_option("--hotlist", options.hotlist,
                 "sample: counting samples of values; tnv: tables of the 50 most frequent")
      ->type_name("KIND")
      ->check(CLI::IsMember({"sample", "tnv"}))
      ->capture_default_str();
  app.add_option("--value-context", options.value_context,
                 "none, or call: values of an instruction by where its function was called from")
      ->type_name("KIND")
      ->check(CLI::IsMember({"none", "call"}))
      ->capture_default_str();
  app.add_option("--condition", options.value_condition,
                 "values=all, or values=burst:N,every:M: N of M trace records are looked at")
      ->type_name("CONDITION")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            if (parse_condition(text)) return {};
            return "'" + report::printable(text) + "' is no condition";
          },
          ""));
  options.sampling.add_to(app);
  app.add_option("--top", options.top, "rows of each hotlist")
      ->type_name("N")
      ->check(CLI::Range(size_t{0}, kMostRows))
      ->capture_default_str();
  app.add_flag("-q,--quiet", options.quiet, "say nothing but errors");
  app.add_flag("-v,--verbose", options.verbose, "say more: the hottest functions, calls and edges");
  app.footer(
      "Example:\n  shadowprof run -o gzip.json -- gzip -k file\n  shadowprof report gzip.json");
  app.prefix_command();
  if (const auto status = parse_command_line(app, "[--] PROGRAM [ARG...]", argc, argv))
    return status;
  if (options.mode == "shadow" && (options.follow || options.exact_inclusive)) {
    error("option {} is for --mode full; for shadow mode it is not built yet",
          options.follow ? "-f" : "--exact-inclusive");
    return kExitOwnFailure;
  }
  return take_command(app.remaining(), options);
}

}  // namespace shadowprof::cli
