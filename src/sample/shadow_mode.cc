// SPDX-License-Identifier: MIT
#include "sample/shadow_mode.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "sample/host.h"
#include "sample/sampled_program.h"
#include "sample/shadow_stretch.h"
#include "shadow/low_priority.h"

namespace shadowprof::sample {
namespace {

Guests guests_of(std::vector<shadow::Program> programs) {
  Guests guests;
  for (shadow::Program& program : programs) guests.programs.push_back({std::move(program)});
  return guests;
}

void add_new(const std::vector<std::string>& sentences, std::vector<std::string>& all) {
  for (const std::string& sentence : sentences)
    if (std::ranges::find(all, sentence) == all.end()) all.push_back(sentence);
}

// With --every, one stretch after another; else the only one.
RunResult sample_stretches(const ShadowStretch::Setting& setting, Guests guests, bool is_over) {
  double sampled_s = 0;
  std::vector<std::string> warnings;
  if (setting.start != nullptr) warnings = setting.start->warnings();
  for (unsigned number = 0;; number++) {
    ShadowStretch stretch(setting, std::move(guests), number, sampled_s);
    if (number == 0 && setting.request.launch && setting.start == nullptr) stretch.let_go();
    if (is_over) stretch.stop();
    stretch.sample();
    if (!stretch.goes_on()) {
      RunResult result = stretch.conclude();
      setting.snapshots.settle();
      if (setting.intervals) setting.intervals->settle();
      add_new(warnings, result.warnings);
      return result;
    }
    sampled_s += stretch.sampling_s();
    add_new(stretch.warnings(), warnings);
    stretch.write_interval();
    guests = stretch.hand_over();
    setting.snapshots.begin_again();
  }
}

}  // namespace

Result<RunResult> run_shadow_mode(const ShadowModeRequest& request) {
  SP_ASSIGN(const InheritedLimits limits, prepare_to_run());
  if (request.prices) tell_of_price(request.prices->faults());
  const probe::BusyCore busy_core =
      request.prices ? request.prices->busy_core() : probe::BusyCore{};
  detail("a busy core costs {:.1f} %", 100 * busy_core.share);
  if (!shadow::may_leave_idle_priority()) detail("replicas are nice, and not idle");
  const auto loss = request.prices ? request.prices->cache_neighbour_loss() : std::nullopt;
  if (loss) detail("a loop over 7 MB loses {:.1f} % beside another one", 100 * *loss);
  block_awaited_signals();
  SP_ASSIGN(std::vector<shadow::Program> programs,
            find_programs(request.launch, request.attach_to, request.follow));
  // It has not executed anything yet.
  if (request.launch) limits.give_to(programs.front().pid());
  Snapshots snapshots(request.snapshots);
  std::optional<IntervalWriter> intervals;
  if (request.intervals)
    intervals.emplace(ProfileSeries(request.intervals->output, request.intervals->keep),
                      request.intervals->length_s);
  auto control = ControlSocket::open(::getppid(), ::getpid());
  if (!control) detail("no socket for ctl: {}", control.error().message);
  ControlSocket* const controlled = control ? &*control : nullptr;
  std::optional<StartWait> start;
  bool is_over = false;
  if (!request.start_at.empty()) {
    start.emplace(request.start_at, request.wishes.max_overhead_share, request.follow_exec,
                  request.wishes.seed);
    is_over = !start->wait(programs.front(), request.launch.has_value(), controlled,
                           request.snapshots.dump_file);
  }
  Guests guests = guests_of(std::move(programs));
  if (start) guests.max_overhead_share = start->share();
  return sample_stretches({request, busy_core, snapshots, intervals ? &*intervals : nullptr,
                           controlled, start ? &*start : nullptr},
                          std::move(guests), is_over);
}

}  // namespace shadowprof::sample
