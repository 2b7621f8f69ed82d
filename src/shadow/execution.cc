// SPDX-License-Identifier: MIT
#include "shadow/execution.h"

#include <fmt/format.h>

#include <fstream>

namespace shadowprof::shadow {

std::span<const trace::Word> end_of_trace(Outcome outcome) {
  static constexpr auto kComplete = trace::sample_end(trace::EndReason::budget);
  static constexpr auto kEarly = trace::sample_end(trace::EndReason::shadow_ended);
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
