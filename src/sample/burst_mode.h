// SPDX-License-Identifier: MIT
//
// A run in bursts: the program runs natively, started by us or found running, and now and then its
// own threads run under the engine for a few milliseconds. No fork, so how much memory the program
// has does not matter.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "ptrace/launch.h"
#include "sample/collection.h"
#include "sample/run_result.h"
#include "sample/snapshots.h"
#include "sample/time_watch.h"

namespace shadowprof::sample {

inline constexpr const char* kNoTimesInBursts =
    "a burst is a window itself, in which each load is timed: latency has no condition there";

inline constexpr const char* kNoSampleSizeInBursts =
    "bursts are as long as --burst says: sample-size is for shadow mode";
inline constexpr const char* kNoFrequencyInBursts =
    "in burst mode freq is a number: --burst says it";

enum class BurstEngineKind : uint8_t { translator, emulator, step };

struct BurstModeRequest {
  std::optional<ptrace::LaunchRequest> launch;  // or
  std::vector<Tid> attach_to;                   // one
  std::vector<std::string> command;             // for the profile
  Collection collection;
  plan::Wishes wishes;  // its frequency is that of bursts
  bool follow_exec = true;  // what the program executes in its place
  std::string start_at{};  // sampling begins there (start_wait.h); "": at once
  std::string only{};        // bursts begin in that part alone (wanted_part.h); "": anywhere
  double length = 0.002;     // seconds
  bool prefill = true;
  BurstEngineKind engine = BurstEngineKind::translator;
  double duration = 0;  // seconds; 0: until the program ends
  SnapshotWishes snapshots{};
  std::string version;
  TimeFrom time = TimeFrom::clock;  // processor time
  size_t top = 20;
  std::map<std::string, std::string> options;
};

Result<RunResult> run_burst_mode(const BurstModeRequest& request);

}  // namespace shadowprof::sample
