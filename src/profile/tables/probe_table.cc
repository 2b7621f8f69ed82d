// SPDX-License-Identifier: MIT
#include "profile/tables/probe_table.h"

#include <algorithm>

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

void renumber(ProbeTable& rows, const ProbeList& were, const ProbeList& are) {
  std::vector<uint32_t> places;
  for (const ProbeInfo& was : were) {
    const auto is =
        std::ranges::find_if(are, [&](const ProbeInfo& info) { return info.same() == was.same(); });
    places.push_back(static_cast<uint32_t>(is - are.begin()));
  }
  for (ProbeRow& row : rows) row.probe = places[row.probe];
}

}  // namespace

void add_probes(ProbeList& into, ProbeTable& into_rows, const ProbeList& from,
                ProbeTable& from_rows) {
  if (from.empty()) return;
  ProbeList all = into;
  for (const ProbeInfo& probe : from) {
    const auto known = std::ranges::find_if(
        all, [&](const ProbeInfo& info) { return info.same() == probe.same(); });
    if (known == all.end())
      all.push_back(probe);
    else
      add_columns(kProbeInfoColumns, *known, probe);
  }
  std::ranges::sort(all,
                    [](const ProbeInfo& a, const ProbeInfo& b) { return a.same() < b.same(); });
  renumber(into_rows, into, all);
  renumber(from_rows, from, all);
  into = std::move(all);
}

}  // namespace shadowprof::profile
