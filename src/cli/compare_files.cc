// SPDX-License-Identifier: MIT
#include "cli/compare_files.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/progress.h"
#include "cli/command_line.h"
#include "profile/compare/same_region.h"
#include "profile/file/json_file.h"
#include "report/code_costs.h"
#include "report/html_diff.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {

Result<ComparedFiles> compare_files(const std::string& base, const std::string& now) {
  SP_ASSIGN(profile::Profile before, profile::read_profile(base, profile::Accept::baselines_too));
  SP_ASSIGN(profile::Profile after, profile::read_profile(now, profile::Accept::baselines_too));
  SP_TRY(profile::check_same_region(before.run, base, after.run, now));
  tell_of_probes(before, after);
  const symbols::ModuleSet base_modules(before.modules);
  const symbols::ModuleSet new_modules(after.modules);
  const profile::SourceKnowledge base_source = {
      [&](profile::CodeRef at) { return base_modules.line(at); },
      report::line_costs(before, base_modules)};
  const profile::SourceKnowledge new_source = {
      [&](profile::CodeRef at) { return new_modules.line(at); },
      report::line_costs(after, new_modules)};
  profile::Diff diff = profile::compare_profiles(before, base_source, after, new_source);
  return ComparedFiles{std::move(before), std::move(after), std::move(diff)};
}

void tell_of_gaps(const profile::Diff& diff, const std::string& base, const std::string& now) {
  for (const auto& [file, why] :
       {std::pair(base, diff.base_incomplete), std::pair(now, diff.new_incomplete)})
    if (!why.empty()) warn("{} {}", file, why);
}

Status write_diff_page(const std::string& base, const std::string& now, size_t rows,
                       const std::string& output) {
  Progress progress(fmt::format("comparing {} and {}", base, now));
  SP_ASSIGN(const ComparedFiles files, compare_files(base, now));
  tell_of_gaps(files.diff, base, now);
  progress.set("making the page");
  report::HtmlOptions html;
  html.rows = rows;
  return write_text(
      report::render_html_diff(files.diff, {files.base, base}, {files.now, now}, html), output);
}

void tell_of_probes(const profile::Profile& a, const profile::Profile& b) {
  if (!a.probes.empty() || !b.probes.empty())
    info("what probes have counted is in the profiles, and is not compared");
  if (!a.plugins.empty() || !b.plugins.empty())
    info("what plug-ins have made is in the profiles, and is not compared");
}

}  // namespace shadowprof::cli
