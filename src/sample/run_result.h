// SPDX-License-Identifier: MIT
//
// What a run gives, in every mode.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collect/operation_counts.h"
#include "profile/profile.h"

namespace shadowprof::sample {

struct RunResult {
  profile::Profile profile;
  // What did not run under the engine, or could not be sampled, one sentence each.
  std::vector<std::string> warnings;
  // A rule of profiles is broken (profile::check_consistency): a bug of ours. Empty: none is.
  std::string internal_error;
  // Where they were asked for.
  std::optional<collect::OperationCounts> operations;
  // In a region; those of a whole program are in the profile.
  uint64_t system_calls_within = 0;
};

}  // namespace shadowprof::sample
