// SPDX-License-Identifier: MIT
//
// When a sampled run took its samples, and how long the program was stopped for them. Rows ascend
// in time. A row has the samples of one replica, or a burst, or, of a run with very many, those of
// a stretch of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profile/tables/column.h"

namespace shadowprof::profile {

struct TimelineRow {
  uint64_t at_us = 0;  // since sampling began
  uint64_t samples = 0;
  uint64_t instructions = 0;
  uint64_t paused_us = 0;
  uint64_t lived_us = 0;  // the replica, or the burst

  bool operator==(const TimelineRow&) const = default;
};

inline constexpr Columns kTimelineColumns{
    column<&TimelineRow::at_us>("at_us"),
    column<&TimelineRow::samples>("samples").sum(),
    column<&TimelineRow::instructions>("instructions").sum(),
    column<&TimelineRow::paused_us>("paused_us").sum(),
    column<&TimelineRow::lived_us>("lived_us").sum(),
};

using Timeline = std::vector<TimelineRow>;

inline constexpr size_t kMostTimelineRows = 2000;

// At most so many rows, each of as long a stretch of time: nothing is lost but when exactly.
Timeline shortened(Timeline timeline, size_t most = kMostTimelineRows);

}  // namespace shadowprof::profile
