// SPDX-License-Identifier: MIT
//
// A sampled run: the program runs natively, started by us or found running, and now and then a
// replica of it runs in its place under an engine.
//
//   launch, attach -> [ plan: fork -> pause, fork, go on -> executor -> collectors ]... -> symbols
//
// One thread serves the program's own stops and the replicas'; nothing it does waits for long.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "probe/host_prices.h"
#include "profile/profile.h"
#include "ptrace/launch.h"
#include "sample/collection.h"
#include "sample/replica_engine.h"
#include "sample/run_result.h"
#include "sample/shadow_run.h"
#include "sample/snapshots.h"

namespace shadowprof::sample {

// A profile of each interval (profile_series.h).
struct IntervalWishes {
  std::string output;
  double length_s = 0;
  size_t keep = 0;  // files; 0: all
};

struct ShadowModeRequest {
  std::optional<ptrace::LaunchRequest> launch;  // or
  std::vector<Tid> attach_to;
  bool follow = false;      // children, too
  bool follow_exec = true;  // what a program executes in its place
  InputLogging input_log = InputLogging::automatic;
  std::vector<std::string> command;  // for the profile
  Collection collection;
  plan::Wishes wishes;
  Engine engine = Engine::translator;
  probe::HostPrices* prices = nullptr;  // null: the default ones
  std::string start_at{};  // sampling begins there (start_wait.h); "": at once
  std::string only{};  // samples begin in that part alone (wanted_part.h); "": anywhere
  bool verify = false;
  // Not 0: nothing is forked. What the programs would do next is interpreted, for about so long
  // each time: burst mode, of more than one process.
  double burst_length_s = 0;
  uint64_t sample_size = 0;  // instructions; 0: the default
  size_t max_shadows = 1;
  uint64_t max_memory = 0;  // bytes; 0: as much as there is
  bool converge = true;     // fewer samples of a program that goes on doing the same
  bool prefill = true;  // translate ahead what the program is seen to run
  // Where lists of code are kept from one run to the next; empty: nowhere. They are of use to the
  // same version of us only.
  std::string code_directory;
  std::string version;
  double duration = 0;  // seconds; 0: until the program ends
  SnapshotWishes snapshots{};
  // Then the result is the profile of the last one.
  std::optional<IntervalWishes> intervals{};
  TimeFrom time = TimeFrom::clock;  // processor time
  size_t top = 20;
  std::map<std::string, std::string> options;
};

// As in a profile.
inline const char* mode_of(const ShadowModeRequest& request) {
  return request.burst_length_s > 0 ? "burst" : "shadow";
}

Result<RunResult> run_shadow_mode(const ShadowModeRequest& request);

}  // namespace shadowprof::sample
