// SPDX-License-Identifier: MIT
//
// What the modes have in common in which the program runs natively most of the time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collect/pipeline.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "ptrace/launch.h"
#include "shadow/program.h"

namespace shadowprof::sample {

// One that is launched, or those that run already.
Result<std::vector<shadow::Program>> find_programs(
    const std::optional<ptrace::LaunchRequest>& launch, const std::vector<Tid>& attach_to,
    bool follow);
// While the program is stopped everything waits for this thread: it comes first. Where that is not
// permitted, it waits its turn.
void serve_first();
// By a signal, as ctrl-Z: not asleep.
bool is_stopped(Tid process);
// Nothing while it runs.
std::optional<profile::Exit> exit_of(const shadow::Program& program);

// How much slower the interpreter executes than the processor (bench/emulator.py). Only for
// estimates of how much there was to profile.
inline constexpr double kEmulatorSlowDown = 25;

// A burst in a timeline, or a replica with all its samples, from times in seconds.
profile::TimelineRow timeline_row(double at, uint64_t samples, uint64_t instructions, double pause,
                                  double life);

// What a run that samples says of itself when it is over.
struct SampledRun {
  double max_overhead = 0;
  double estimated_overhead = 0;
  double program_cpu_s = 0;
  std::vector<double> pauses;  // seconds
  profile::Timeline timeline{};
  uint64_t samples = 0;
  std::map<std::string, uint64_t> ended;     // samples, by reason
  std::map<std::string, uint64_t> sampling;  // as in profile::Overhead
  std::map<std::string, double> by_cause;    // as there
  std::map<std::string, uint64_t> steps;
  uint64_t fragments = 0;
  double translation_s = 0;
  // What executed the samples: how much of them, in how much processor time, how much slower than
  // natively.
  uint64_t instructions = 0;
  double engine_cpu_s = 0;
  double slow_down = 1;
  double guest_s = 0;  // the same on the engine's clock (shadow/engine_clock.h); 0: it has none
  bool assumed_speeds = false;    // see profile::Coverage
  double instructions_per_s = 0;  // on that clock, as the samples count; 0: they do not say
};
// What was spent, and why.
void fill_costs(const plan::Ledger& ledger, const plan::Plan& plan, SampledRun& run);
// What the pipeline's collectors have left in `profile` is completed.
void fill_sampled(const SampledRun& run, const collect::Pipeline& pipeline,
                  profile::Profile& profile);

}  // namespace shadowprof::sample
