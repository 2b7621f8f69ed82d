// SPDX-License-Identifier: MIT
//
// A profile as it is of some of its threads: which functions they executed, and where their time
// went. What else a profile has is known of all threads together only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profile/profile.h"

namespace shadowprof::profile {

// Half of the interval of a thread's share of the instructions.
Margin thread_share_error(const Profile& profile, const ThreadRow& thread);

// The threads with this name, or else the one with this id. An error lists the names that there
// are.
Result<std::vector<uint32_t>> find_threads(const Profile& profile, std::string_view wanted);

// What the threads are of all.
struct ThreadPart {
  ThreadTable threads;
  bool knows_code = false;  // instructions are known by thread
  uint64_t instructions = 0;
  double instruction_share = 0;
  Margin instruction_error = 0;  // of that share; nothing: not known
  double time_share = 0;
  double time_error = 0;
  std::vector<std::string> unknown;  // hotlists of all threads that have rows, but not by thread
};

// The profile's functions, processor time and instructions become those of these threads, and its
// hotlists have functions only, at most `limit` of either order; what is not known by thread is
// gone. Shares are parts of what these threads did.
ThreadPart keep_threads(Profile& profile, const std::vector<uint32_t>& threads, size_t limit);

}  // namespace shadowprof::profile
