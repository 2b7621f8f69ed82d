// SPDX-License-Identifier: MIT
#include "shadow/execution.h"

namespace shadowprof::shadow {

std::span<const trace::Word> end_of_trace(Outcome outcome) {
  static constexpr auto kComplete = trace::sample_end(trace::EndReason::budget);
  static constexpr auto kEarly = trace::sample_end(trace::EndReason::shadow_ended);
  return outcome == Outcome::budget ? kComplete : kEarly;
}

std::span<const trace::Word> end_for_now() {
  static constexpr auto kPauses = trace::sample_end(trace::EndReason::pauses);
  return kPauses;
}

}  // namespace shadowprof::shadow
