// SPDX-License-Identifier: MIT
#include "shadow/execution.h"

#include <fmt/format.h>

#include <fstream>

namespace shadowprof::shadow {

std::span<const trace::Word> end_of_trace(Outcome outcome) {
  static constexpr trace::Word kMark = trace::special_word(trace::SpecialKind::sample_end, 2);
  static constexpr trace::Word kComplete[] = {kMark,
                                              static_cast<trace::Word>(trace::EndReason::budget)};
  static constexpr trace::Word kEarly[] = {
      kMark, static_cast<trace::Word>(trace::EndReason::shadow_ended)};
  return outcome == Outcome::budget ? kComplete : kEarly;
}

// /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst) is in nanoseconds.
ProcessorTime processor_time_of(Tid tid) {
  std::ifstream file(fmt::format("/proc/{}/schedstat", tid.value));
  ProcessorTime time;
  file >> time.used >> time.waited;
  return {1e-9 * time.used, 1e-9 * time.waited};
}

}  // namespace shadowprof::shadow
