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
  return fmt::format("{} of the {} are at stake: {}{}", percent(lead.stake),
                     unit_of_stakes(profile), lead.at ? point(*lead.at, kPlaceColumns) + ": " : "",
                     lead.text);
}

std::vector<Lead> find_leads(const Profile& profile, size_t limit) {
  if (!profile::evidence_of(profile).enough) return {};
  std::vector<Lead> leads = LeadSearch(profile).all();
  std::ranges::stable_sort(leads, std::greater{}, &Lead::stake);
  if (leads.size() > limit) leads.resize(limit);
  return leads;
}

}  // namespace shadowprof::report
