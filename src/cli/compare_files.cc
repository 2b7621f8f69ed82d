// SPDX-License-Identifier: MIT
#include "cli/compare_files.h"

#include "base/log.h"
#include "profile/compare/same_region.h"
#include "profile/file/json_file.h"
#include "report/code_costs.h"
#include "symbols/module_set.h"

namespace shadowprof::cli {

Result<profile::Diff> compare_files(const std::string& base, const std::string& now) {
  SP_ASSIGN(const profile::Profile before,
            profile::read_profile(base, profile::Accept::baselines_too));
  SP_ASSIGN(const profile::Profile after,
            profile::read_profile(now, profile::Accept::baselines_too));
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
  return profile::compare_profiles(before, base_source, after, new_source);
}

void tell_of_probes(const profile::Profile& a, const profile::Profile& b) {
  if (!a.probes.empty() || !b.probes.empty())
    info("what probes have counted is in the profiles, and is not compared");
  if (!a.plugins.empty() || !b.plugins.empty())
    info("what plug-ins have made is in the profiles, and is not compared");
}

}  // namespace shadowprof::cli
