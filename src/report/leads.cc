// SPDX-License-Identifier: MIT
#include "report/leads.h"

#include <fmt/format.h>

#include <algorithm>

#include "profile/evidence.h"
#include "report/columns.h"
#include "report/lead_search.h"

namespace shadowprof::report {

using profile::Profile;

const char* unit_of_stakes(const Profile& profile) {
  return profile.time.is_known() ? "time" : "cycles";
}

std::string sentence_of(const Lead& lead, const Profile& profile) {
  return fmt::format("{}{} of the {} are at stake: {}{}", lead.is_maybe ? "maybe " : "",
                     percent(lead.stake), unit_of_stakes(profile),
                     lead.at ? point(*lead.at, kPlaceColumns) + ": " : "", lead.text);
}

namespace {

// What has kLeastStakeShare at stake is executed or takes time so often that it is far before
// these, in any order that lists have.
constexpr size_t kMostSearched = 20'000;

}  // namespace

std::vector<Lead> find_leads(const Profile& profile, size_t limit,
                             const symbols::ModuleSet* files) {
  if (!profile::evidence_of(profile).enough) return {};
  const CodeFacts code(profile, files);
  const bool is_whole = profile::has_whole_finding_lists(profile);
  const profile::Hotlists longer =
      is_whole ? profile::Hotlists()
               : profile::compute_finding_lists(profile, kMostSearched, [&](profile::CodeRef at) {
                   return code.instruction(at);
                 });
  std::vector<Lead> leads = LeadSearch(profile, is_whole ? profile.hotlists : longer, code).all();
  std::ranges::stable_sort(leads, std::greater{},
                           [](const Lead& lead) { return std::pair(!lead.is_maybe, lead.stake); });
  if (leads.size() > limit) leads.resize(limit);
  return leads;
}

}  // namespace shadowprof::report
