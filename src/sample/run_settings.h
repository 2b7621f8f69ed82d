// SPDX-License-Identifier: MIT
//
// What can be set in a run that goes on (shadowprof ctl PID set NAME=VALUE), besides the budget.
// The words are the same at both ends of the socket, and each end looks at them.
//
//   client: parse_setting() ─▶ socket ─▶ parse_setting() ─▶ the run's loop, between two steps of it
//                                                              │ refused: nothing has changed
//                                                              ▼
//                                             what holds from now on; run.changes of the profile
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sample/conditions.h"

namespace shadowprof::sample {

inline constexpr uint64_t kSmallestSample_instructions = 1000;

struct RunSetting {
  enum class What : uint8_t { frequency, sample_size, condition };
  What what{};
  std::string name;   // as in run.changes
  std::string value;  // likewise
  double frequency_hz = 0;   // 0: as the budget allows
  uint64_t sample_size = 0;  // instructions; 0: as the plan says
  Condition condition{};
};

// NAME=VALUE: freq=HZ, freq=auto, sample-size=N, sample-size=auto, or a condition. An Error: one
// sentence.
Result<RunSetting> parse_setting(std::string_view text);

// All that was set since a run began, for each of its stretches.
struct RunSettings {
  std::optional<double> frequency_hz;
  std::optional<uint64_t> sample_size;
  Conditions conditions;
};

}  // namespace shadowprof::sample
