// SPDX-License-Identifier: MIT
//
// `shadowprof compare`: how accurate a sampled profile is, measured by the perfect one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare_files.h"
#include "cli/exit_codes.h"
#include "profile/accuracy.h"
#include "profile/compare/same_region.h"
#include "profile/evidence.h"
#include "profile/file/json_file.h"

namespace shadowprof::cli {
namespace {

using profile::Accuracy;

struct CompareOptions {
  std::string perfect;
  std::string sampled;
  bool json = false;
};

std::string as_json(const Accuracy& a) {
  using Json = nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); };
  const Json all = {
      {"paths", {{"accuracy", number(a.paths)}}},
      {"edges", {{"accuracy", number(a.edges)}}},
      {"values", {{"accuracy", number(a.values())}, {"diff_top", number(a.diff_top)}}},
      {"call_pairs", {{"overlap", number(a.call_pairs)}}},
      {"methods", {{"overlap", number(a.methods)}}},
      {"coverage", number(a.coverage)}};
  return all.dump() + "\n";
}

std::string as_text(const Accuracy& a) {
  std::string text;
  const auto line = [&](std::string_view name, const std::optional<double>& x,
                        const char* meaning) {
    const std::string figure = x ? fmt::format("{:.2f} %", *x * 100) : "-";
    text += fmt::format("{:<12} {:>9}  {}\n", name, figure, meaning);
  };
  line("paths", a.paths, "of the flow of the hottest 5 % of paths is found");
  line("edges", a.edges, "of all edge executions agree");
  line("values", a.values(), "1 - mean difference of the top value's share");
  line("call pairs", a.call_pairs, "overlap of the pairs that make up 90 % of all calls");
  line("methods", a.methods, "overlap of the methods that make up 90 % of all instructions");
  line("coverage", a.coverage, "of the instructions were profiled");
  return text;
}

Status print_comparison(const CompareOptions& options) {
  SP_ASSIGN(const profile::Profile perfect, profile::read_profile(options.perfect));
  SP_ASSIGN(const profile::Profile sampled, profile::read_profile(options.sampled));
  SP_TRY(profile::check_same_region(perfect.run, options.perfect, sampled.run, options.sampled));
  if (const auto part = profile::why_incomplete(perfect))
    warn("{} is no perfect profile: it {}", options.perfect, *part);
  else if (!perfect.confidence.exact)
    info("{} is not exact, so the figures compare two estimates", options.perfect);
  if (perfect.coverage.paths.collected && sampled.coverage.paths.collected &&
      perfect.coverage.paths.intra != sampled.coverage.paths.intra)
    info("the two profiles have paths of different scope");
  tell_of_probes(perfect, sampled);
  const Accuracy accuracy = profile::accuracy_of(perfect, sampled);
  if (accuracy.diff_top && accuracy.other_addresses)
    info("values that are addresses do not agree, as they differ from run to run; --deterministic "
         "switches that off");
  return print(options.json ? as_json(accuracy) : as_text(accuracy));
}

}  // namespace

int compare_main(int argc, char** argv) {
  CLI::App app("Measures a sampled profile by the perfect one of the same work.",
               "shadowprof compare");
  CompareOptions options;
  app.add_option("PERFECT", options.perfect, "profile of a full run")->required();
  app.add_option("SAMPLED", options.sampled, "the profile to measure")->required();
  app.add_flag("--json", options.json, "print the measures as JSON; null where one is missing");
  const Usage usage = {
      "PERFECT SAMPLED",
      {"shadowprof run --mode full -o perfect.json -- ./app",
       "shadowprof run -o sampled.json -- ./app", "shadowprof compare perfect.json sampled.json"}};
  if (const auto status = parse_command_line(app, usage, argc, argv)) return *status;
  if (const Status printed = print_comparison(options); !printed) {
    error("{}", printed.error().message);
    return kExitOwnFailure;
  }
  return kExitOk;
}

}  // namespace shadowprof::cli
