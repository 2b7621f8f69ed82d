// SPDX-License-Identifier: MIT
#include "profile/tables/timeline.h"

#include <algorithm>
#include <utility>

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {

Timeline shortened(Timeline timeline, size_t most) {
  std::sort(timeline.begin(), timeline.end(),
            [](const TimelineRow& a, const TimelineRow& b) { return a.at_us < b.at_us; });
  if (timeline.size() <= most) return timeline;
  const uint64_t stretch = timeline.back().at_us / most + 1;
  Timeline result;
  for (const TimelineRow& row : timeline) {
    if (result.empty() || row.at_us / stretch != result.back().at_us / stretch) {
      result.push_back(row);
      continue;
    }
    add_columns(kTimelineColumns, result.back(), row);
  }
  return result;
}

}  // namespace shadowprof::profile
