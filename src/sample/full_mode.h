// SPDX-License-Identifier: MIT
//
// Full mode: the program itself runs under the translator, from its first instruction to its end,
// and every instruction is counted. The result is the perfect profile that sampled ones are
// measured by.
//
//   launch -> exec stop -> arenas mapped -> engine loop -> collectors finish -> symbols -> profile
//                                             |
//                                     trace buffers -> collector thread
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "machine/cpu_model.h"
#include "profile/profile.h"
#include "ptrace/launch.h"
#include "sample/collection.h"
#include "sample/region_code.h"
#include "sample/run_result.h"

namespace shadowprof::sample {

struct FullModeRequest {
  std::string path;  // of the program's file
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  ptrace::InheritedSignals signals;
  bool follow = false;      // children
  bool follow_exec = true;  // what the program executes in its place
  bool deterministic = false;
  bool real_clock = false;  // though it is deterministic
  std::optional<uint64_t> schedule_seed;  // of it; nothing: threads run in order
  const machine::CpuModel* processor = nullptr;  // that the program is told of; nullptr: the host's
  Collection collection;
  std::optional<RegionRequest> within;  // nothing: all of the program
  bool count_operations = false;  // for RunResult::operations; exact_inclusive: only within
  uint64_t seed = 1;
  size_t top = 20;                             // rows of each hotlist
  std::map<std::string, std::string> options;  // as the user gave them, for the profile
};

// An Error means that the program did not start, or that its end was not seen.
Result<RunResult> run_full_mode(const FullModeRequest& request);

}  // namespace shadowprof::sample
