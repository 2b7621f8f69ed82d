// SPDX-License-Identifier: MIT
//
// Conditions as the user writes them, in --condition and for ctl:
//
//   TYPE=all                  all that executes
//   TYPE=1/N                  one in N
//   TYPE=burst:N,every:M      N of M executions, or, with units of time, N of each M
//
// TYPE is one of those whose records are worth leaving out: values and latency. What becomes of
// them:
//
//   --condition ─▶ Collection ─┬▶ the collector: what windows saw stands for the rest
//                              └▶ CaptureShares of the engine's CaptureWindows, where it has some
//   ctl set     ─▶ the run's loop ─▶ CaptureShares from the next trace buffer on (RunSettings)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collect/capture_condition.h"

namespace shadowprof::sample {

enum class ConditionType : uint8_t { values, latency };
inline constexpr std::string_view kConditionTypes[] = {"values", "latency"};

struct Condition {
  ConditionType type{};
  collect::CaptureCondition how{};
};

// An Error: one sentence that says what is wrong.
Result<Condition> parse_condition(std::string_view text);
// As it may be written behind TYPE=.
std::string to_text(const collect::CaptureCondition& how);

// At most one of each type.
struct Conditions {
  std::optional<collect::CaptureCondition> values;   // nothing: the mode says
  std::optional<collect::CaptureCondition> latency;  // likewise

  std::optional<collect::CaptureCondition>& of(ConditionType type) {
    return type == ConditionType::values ? values : latency;
  }
};

}  // namespace shadowprof::sample
