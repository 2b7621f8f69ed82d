// SPDX-License-Identifier: MIT
//
// The ranking of what the user's probes have counted: each probe has a ranking of its own.
#include <algorithm>

#include "profile/hotlists/hotlist_rows.h"

namespace shadowprof::profile {
namespace {

HotProbe listed(const Profile& profile, const LineLookup& lines, const ProbeRow& row) {
  const ProbeInfo& probe = profile.probes[row.probe];
  HotProbe hot;
  hot.probe = probe.name;
  hot.count = row.count;
  hot.share = share_of(row.count, probe.counted);
  hot.share_error = margin_of(profile, row.error, probe.counted);
  const auto shown = [&](const ProbeNumber& number) {
    HotProbe::Number one{.place = {}, .number = number.number};
    if (number.is_place) one.place = place_of(profile, lines, {number.module, number.number});
    return one;
  };
  for (size_t i = 0; i < row.numbers.size(); i++) {
    hot.numbers.push_back(shown(row.numbers[i]));
    hot.numbers.back().is_range = probe.action == "log2" && i >= probe.keys && i + 1 != probe.stack;
  }
  for (const ProbeNumber& call : row.stack) hot.stack.push_back(shown(call));
  return hot;
}

}  // namespace

void add_probe_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                       Hotlists& lists) {
  for (uint32_t probe = 0; probe < profile.probes.size(); probe++) {
    std::vector<const ProbeRow*> rows;
    for (const ProbeRow& row : profile.tables.probes)
      if (row.probe == probe) rows.push_back(&row);
    uint32_t rank = 0;
    for (const size_t i : hottest(rows, limit, [](const ProbeRow* row) { return row->count; })) {
      lists.probes.push_back(listed(profile, lines, *rows[i]));
      lists.probes.back().rank = ++rank;
    }
  }
}

}  // namespace shadowprof::profile
