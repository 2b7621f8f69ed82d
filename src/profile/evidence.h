// SPDX-License-Identifier: MIT
//
// What must be known of a profile before its rows are read: whether it has the program to its end,
// and whether there is enough of it for conclusions.
//
// A row is *certain* if half of its interval (confidence.h) is not more than its share. There is
// enough if the certain ones of the ten hottest functions have at least half of what the ten have.
// Where errors are not known, samples are counted: kFewSamples are enough. Samples that have not
// met the code that had most of the time in user mode are not enough, however much they agree.
#pragma once

#include <optional>
#include <string>

#include "profile/profile.h"

namespace shadowprof::profile {

inline constexpr uint64_t kFewSamples = 30;
inline constexpr uint64_t kFewTicks = 100;  // a tenth of the time is known to 6 points then
inline constexpr double kMostUnmetShare = 0.5;

// One sentence without a full stop; nothing: it has the whole program, or samples of all of it.
std::optional<std::string> why_incomplete(const Profile& profile);

// The same of processes that the program started, if they had much of the processor time.
std::optional<std::string> what_others_did(const Profile& profile);

// Where samples began, if that was not anywhere (--only).
std::optional<std::string> part_sampled(const Profile& profile);

// A sum of runs that recorded very different parts of their instructions: those that recorded more
// count more, and nothing says how fast code is by both instructions and time.
std::optional<std::string> uneven_runs(const Profile& profile);

struct Evidence {
  bool enough = true;
  std::string advice;  // if not: one sentence without a full stop
};
Evidence evidence_of(const Profile& profile);

// Rows without an interval are.
inline bool is_certain(double share, const Margin& error) {
  return !error || *error <= share;
}

}  // namespace shadowprof::profile
