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
#include "sample/attempts.h"
#include "shadow/program.h"

namespace shadowprof::sample {

// One that is launched, or those that run already.
Result<std::vector<shadow::Program>> find_programs(
    const std::optional<ptrace::LaunchRequest>& launch, const std::vector<Tid>& attach_to,
    bool follow);
// By a signal, as ctrl-Z: not asleep.
bool is_stopped(Tid process);
// Nothing while it runs.
std::optional<profile::Exit> exit_of(const shadow::Program& program);

// A burst in a timeline, or a replica with all its samples, from times in seconds.
profile::TimelineRow timeline_row(double at, uint64_t samples, uint64_t instructions, double pause,
                                  double life);

// What a run that samples says of itself when it is over.
struct SampledRun {
  // Without the pauses' figures, and what the engine and the collectors took of processors.
  profile::Overhead overhead{};
  std::vector<double> pauses;  // seconds
  // Processor time of ours for it, before this process was made, if that is a copy.
  double own_cpu_before_s = 0;
  uint64_t samples = 0;
  profile::Counts ended;  // samples, by reason
  // What executed the samples: how much of them, in how much processor time, how much slower than
  // natively; 0: an interpreter's time says nothing of the program's.
  uint64_t instructions = 0;
  double engine_cpu_s = 0;
  double slow_down = 0;
  double guest_s = 0;  // the same on the engine's clock (shadow/engine_clock.h); 0: it has none
  bool assumed_speeds = false;    // see profile::Coverage
  double instructions_per_s = 0;  // on that clock, as the samples count; 0: they do not say
  double part = 1;                // of the time, in which samples could begin
  bool follows = false;           // processes that the program starts
};
// What was spent, and why.
void fill_costs(const plan::Ledger& ledger, const plan::Plan& plan, profile::Overhead& overhead);
void warn_if_never_there(const std::string& only, const Attempts& attempts, uint64_t samples,
                         std::vector<std::string>& warnings);
void tell_attempts(const Attempts& attempts, profile::Counts& stops);
// What the pipeline's collectors have left in `profile` is completed.
void fill_sampled(const SampledRun& run, const collect::Pipeline& pipeline,
                  profile::Profile& profile);

}  // namespace shadowprof::sample
