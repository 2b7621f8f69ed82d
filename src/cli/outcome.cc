// SPDX-License-Identifier: MIT
#include "cli/outcome.h"

#include <unistd.h>

#include "base/log.h"
#include "cli/version.h"
#include "profile/json_file.h"
#include "report/text_report.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kSummaryRows = 5;

void say_sampled(const profile::Profile& profile, const std::string& where) {
  const profile::Overhead& cost = profile.overhead;
  info(
      "{} sample{}, {} instructions in {} functions profiled in {:.2f} s, {:.2f} % overhead "
      "(estimated), {:.2f} s of our own: {}",
      profile.coverage.samples, profile.coverage.samples == 1 ? "" : "s",
      profile.coverage.instructions_profiled, profile.functions.size(), profile.run.duration_s,
      100 * cost.estimated_share, cost.engine_cpu_s + cost.collector_cpu_s, where);
}

void say_whole(const profile::Profile& profile, const std::string& where) {
  const profile::Overhead& cost = profile.overhead;
  info("{} instructions in {} functions profiled, {:.2f} s of program, {:.2f} s of our own: {}",
       profile.coverage.instructions_profiled, profile.functions.size(), cost.program_cpu_s,
       cost.engine_cpu_s + cost.collector_cpu_s, where);
}

// With -v the hottest rows follow the one line that we always say.
void say_hottest(const profile::Profile& profile) {
  report::TextOptions text;
  text.columns = report::terminal_columns(STDERR_FILENO);
  text.limit = kSummaryRows;
  text.color = report::use_color("auto", STDERR_FILENO);
  const std::string summary = report::render_text(profile, text);
  // Standard error may be closed or full; that is no reason to fail.
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, summary.data(), summary.size());
}

}  // namespace

Status report_outcome(profile::Profile& profile, const std::vector<std::string>& warnings,
                      const std::string& internal_error, const OutcomeOptions& options) {
  for (const std::string& warning : warnings) info("{}", warning);
  if (!internal_error.empty()) {
    error("internal error, the profile is not right: {}", internal_error);
  }
  profile.tool_version = version();
  SP_TRY(profile::write_profile(profile, options.output));
  const std::string where = options.output == "-" ? "standard output" : options.output;
  profile.run.mode == "full" ? say_whole(profile, where) : say_sampled(profile, where);
  if (options.verbose) say_hottest(profile);
  return {};
}

}  // namespace shadowprof::cli
