// SPDX-License-Identifier: MIT
#include "cli/report_outcome.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "cli/command_line.h"
#include "cli/version.h"
#include "plan/plan_limits.h"
#include "plan/prices.h"
#include "profile/evidence.h"
#include "profile/file/json_file.h"
#include "report/columns.h"
#include "report/leads.h"
#include "report/text_report.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kSummaryRows = 5;
constexpr size_t kSummaryLeads = 2;
constexpr size_t kSummaryFunctions = 5;
constexpr size_t kFunctionColumns = 56;
constexpr double kLeastSummaryShare = 0.01;

// From here on an estimate of the overhead is more than its budget and the noise of both.
constexpr double kClearlyAbove = 1.1;
constexpr double kWorthNaming = 0.05;  // of what sampling has cost

// Whoever is traced stands still at each of them: no budget makes that less.
std::string told_of_signals(const profile::Overhead& cost, double duration_s) {
  const auto spent = cost.by_cause.find("signals");
  if (spent == cost.by_cause.end()) return "";
  const double share = spent->second / duration_s;
  if (share < kWorthNaming * cost.estimated_share) return "";
  return fmt::format("{:.1f} % as it was sent {:.0f} signals a second, ", 100 * share,
                     share / plan::Prices().signal_s);
}

// And by what.
void say_if_too_dear(const profile::Profile& profile) {
  const profile::Overhead& cost = profile.overhead;
  const double duration_s = profile.run.duration_s;
  if (cost.budget_share <= 0 || duration_s <= 0) return;
  if (cost.estimated_share <= kClearlyAbove * cost.budget_share) return;
  const double pauses = std::min(cost.estimated_share, cost.pause_s.total / duration_s);
  std::string text = fmt::format(
      "sampling cost the program {:.1f} % (estimated), and the budget was {:.1f} %: "
      "{:.1f} % pauses, the longest {:.1f} ms, {}the rest page faults and shared processors",
      100 * cost.estimated_share, 100 * cost.budget_share, 100 * pauses, 1e3 * cost.pause_s.max,
      told_of_signals(cost, duration_s));
  if (duration_s < plan::kLoan_s)
    text +=
        fmt::format("; a run of {:.1f} s may spend what {:.0f} s give", duration_s, plan::kLoan_s);
  info("{}", text);
}

void say_sampled(const profile::Profile& profile, const std::string& where) {
  const profile::Overhead& cost = profile.overhead;
  const profile::Evidence evidence = profile::evidence_of(profile);
  if (profile.coverage.samples == 0) return info("{}: {}", evidence.advice, where);
  info(
      "{} sample{}, {} instructions in {} functions profiled in {:.2f} s, {:.2f} % overhead "
      "(estimated), {:.2f} s of our own: {}",
      profile.coverage.samples, profile.coverage.samples == 1 ? "" : "s",
      profile.coverage.instructions_profiled, profile.functions.size(), profile.run.duration_s,
      100 * cost.estimated_share, cost.engine_cpu_s + cost.collector_cpu_s, where);
  // Else it has been said what is missing.
  if (!evidence.enough && profile.coverage.ended_early.empty()) info("{}", evidence.advice);
  say_if_too_dear(profile);
}

void say_whole(const profile::Profile& profile, const std::string& where) {
  const profile::Overhead& cost = profile.overhead;
  const size_t functions = profile.functions.size();
  info("{} instructions in {} function{} profiled, {:.2f} s of program, {:.2f} s of our own: {}",
       profile.coverage.instructions_profiled, functions, functions == 1 ? "" : "s",
       cost.program_cpu_s, cost.engine_cpu_s + cost.collector_cpu_s, where);
}

// The first of the report's list of functions, by time where that is known, the kernel's for them
// included, as far as they are certain.
void say_functions(const profile::Profile& profile) {
  const profile::ProcessorTime& time = profile.time;
  size_t said = 0;
  for (const profile::HotMethod& m : profile.hotlists.methods) {
    const double share = time.is_known() ? m.time.whole_share(time) : m.self_share;
    const profile::Margin error = time.is_known() ? time.error_of(share) : m.self_share_error;
    if (share < kLeastSummaryShare || !profile::is_certain(share, error)) continue;
    const double margin = error.value_or(0), kernel = m.time.kernel_share(time);
    info("{:>6}{} of the {}: {}{}", report::percent(share),
         margin > 0 ? fmt::format(" +-{:<4.1f}", 100 * margin) : "",
         time.is_known() ? "time" : "instructions",
         report::function_or_address(m.at, kFunctionColumns),
         kernel >= kLeastSummaryShare ? fmt::format(" ({} in the kernel)", report::percent(kernel))
                                      : "");
    if (++said == kSummaryFunctions) break;
  }
}

// As a shell takes it; "" where that would need more than quotes.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./~@%";
  if (word.empty() || report::printable(word) != word) return "";
  if (word.find_first_not_of(kPlain) == std::string::npos && word.front() != '~') return word;
  return word.find('\'') == std::string::npos ? "'" + word + "'" : "";
}

// The first function that findings or times are about, as `annotate` takes it.
std::string function_to_look_at(const profile::Profile& profile,
                                const std::vector<report::Lead>& leads) {
  for (const report::Lead& lead : leads)
    if (lead.at && !lead.at->function.empty())
      return shell_word(report::function_or_address(*lead.at));
  const auto& methods = profile.hotlists.methods;
  if (methods.empty() || methods.front().at.function.empty()) return "";
  return shell_word(report::function_or_address(methods.front().at));
}

// The best of what the report begins with, and where there is more.
void say_findings(const profile::Profile& profile, const std::string& output) {
  const symbols::ModuleSet files(profile.modules);
  const auto leads = report::find_leads(profile, kSummaryLeads, &files);
  for (const report::Lead& lead : leads) info("{}", report::sentence_of(lead, profile));
  if (const auto busy = report::told_of_busy_host(profile)) info("{}", *busy);
  const std::string file = output == kDefaultProfile ? "" : shell_word(output);
  if (output == "-" || profile.functions.empty() || (file.empty() && output != kDefaultProfile))
    return;
  const std::string of_file = file.empty() ? "" : " " + file;
  const std::string function = function_to_look_at(profile, leads);
  info("next: shadowprof report{}{}", of_file,
       function.empty() ? "" : fmt::format(", shadowprof annotate{} {}", of_file, function));
}

// With -v the hottest rows follow the one line that we always say.
void say_hottest(const profile::Profile& profile) {
  report::TextOptions text;
  text.columns = report::terminal_columns(STDERR_FILENO);
  text.limit = kSummaryRows;
  text.color = report::use_color("auto", STDERR_FILENO);
  const symbols::ModuleSet files(profile.modules);
  text.files = &files;
  const std::string summary = report::render_text(profile, text);
  write_to_user(summary);
}

}  // namespace

void say_what_is_missing(const profile::Profile& profile) {
  for (const profile::PluginInfo& plugin : profile.plugins)
    for (const std::string& problem : plugin.problems)
      warn("plug-in {}: {}", report::printable(plugin.file), problem);
  for (const profile::EndedEarly& e : profile.coverage.ended_early) {
    const bool wanted = e.why.ends_with(profile::kByNoExec);
    const std::string text =
        fmt::format("{}: the profile has nothing of it after {:.3f} s", e.why, e.at_s);
    wanted ? info("{}", text) : warn("{}", text);
  }
  if (!profile.coverage.ended_early.empty()) return;
  if (const auto why = profile::why_incomplete(profile)) warn("the profile {}", *why);
}

Status report_outcome(profile::Profile& profile, const std::vector<std::string>& warnings,
                      const std::string& internal_error, const OutcomeOptions& options) {
  say_what_is_missing(profile);
  for (const std::string& warning : warnings) info("{}", warning);
  const auto others = profile::what_others_did(profile);
  const bool says_so = profile.run.mode == "full" || profile.coverage.samples != 0;
  if (others && says_so) info("{}", *others);
  if (!internal_error.empty()) {
    error("internal error, the profile is not right: {}", internal_error);
  }
  profile.tool_version = version();
  SP_TRY(profile::write_profile(profile, options.output));
  if (verbosity() == Verbosity::quiet) return {};  // what is found takes a while to find
  const std::string where = options.output == "-" ? "standard output" : options.output;
  profile.run.mode == "full" ? say_whole(profile, where) : say_sampled(profile, where);
  if (options.verbose) {
    say_hottest(profile);
  } else {
    say_functions(profile);
    say_findings(profile, options.output);
  }
  return {};
}

}  // namespace shadowprof::cli
