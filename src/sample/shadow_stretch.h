// SPDX-License-Identifier: MIT
//
// A stretch of sampling that gives one profile: all of a run, or one of its intervals. It owns all
// that the profile is made of, so the next stretch begins with nothing but the programs, and its
// profile holds only what was seen in it:
//
//   ShadowStretch ── sample() ──▶ conclude()                  the run is over: the profile
//                             └▶ write_interval(), hand_over() it goes on: the next stretch
//
// While it samples it serves whoever wants something of it (serve()): the user's signals, and
// snapshots.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collect/pipeline.h"
#include "sample/control_socket.h"
#include "sample/interval_writer.h"
#include "sample/name_functions.h"
#include "sample/pipeline_sink.h"
#include "sample/sampled_program.h"
#include "sample/serves_first.h"
#include "sample/shadow_mode.h"
#include "sample/snapshots.h"
#include "sample/start_wait.h"

namespace shadowprof::sample {

class ShadowStretch {
 public:
  // What all stretches of a run have in common.
  struct Setting {
    const ShadowModeRequest& request;
    probe::BusyCore busy_core;
    Snapshots& snapshots;
    IntervalWriter* intervals = nullptr;  // null: there are none
    ControlSocket* control = nullptr;     // null: nobody can talk to it
    const StartWait* start = nullptr;     // null: it began at once
  };
  // `number`: of stretches before it; `sampled_s`: how long these were.
  ShadowStretch(const Setting& setting, Guests guests, unsigned number, double sampled_s);
  ~ShadowStretch();

  // A program that was just launched runs from here on.
  void let_go() { sampled_->let_go(); }
  void sample() { sampled_->run(); }
  // Sampling is over, or is not to begin.
  void stop() { sampled_->stop(); }
  bool goes_on() const { return sampled_->goes_on(); }
  double sampling_s() const { return sampled_->sampling_s(); }
  const std::vector<std::string>& warnings() const { return sampled_->warnings(); }
  RunResult conclude();
  void write_interval();
  Guests hand_over() {
    Guests guests = sampled_->hand_over();
    guests.settings = settings_;
    return guests;
  }

 private:
  void serve(double now);
  std::string status(double now) const;
  ControlledRun controlled(double now);
  void make_run(Guests guests, unsigned number);
  void apply_settings(plan::Wishes& wishes);
  Result<std::string> set(const RunSetting& setting);
  Status set_condition(const Condition& condition);
  std::string conditions_text() const;
  profile::Profile& profile_in_copy();
  void finish_parts();
  void name_and_fill();
  SampledRun describe() const;
  bool is_interpreted() const;

  Setting setting_;
  const ShadowModeRequest& request_;
  profile::Profile profile_;
  std::vector<symbols::PerfMapPlace> generated_;
  int64_t started_;
  double sampled_before_s_;
  double own_cpu_before_s_;       // see SampledRun
  double own_cpu_at_copy_s_ = 0;  // of the original, when the last copy was made
  trace::BlockTable table_;
  Collection collection_;
  collect::SampleWeights weights_;
  ShadowRunOptions options_;
  trace::RunMailbox seen_enough_;
  collect::ConditionChange value_change_;
  RunSettings settings_;
  std::optional<collect::Pipeline> pipeline_;
  std::optional<PipelineSink> sink_;
  std::optional<CodeDirectory> directory_;
  std::optional<WantedPart> only_;
  std::optional<ShadowRun> sampled_;
  std::optional<ServesFirst> first_;
};

}  // namespace shadowprof::sample
