// SPDX-License-Identifier: MIT
//
// The event loop of burst mode: one program, the engine of its bursts, and the plan that says when
// the next one is.
//
//   native ──▶ Pause ─▶ engine.begin ─▶ reports until its time is up ─▶ engine.end ──▶ native
//     │
//     └─ now and then a look at where the program is, for code to be translated ahead
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collect/weights/sample_weights.h"
#include "plan/plan.h"
#include "sample/attempts.h"
#include "sample/burst_engine.h"
#include "sample/run_watch.h"
#include "sample/time_watch.h"
#include "sample/wanted_part.h"

namespace shadowprof::sample {

struct BurstRunOptions {
  double length = 0.002;  // seconds, on average; lengths are random against bias
  double duration = 0;    // of sampling; 0: until the program ends
  TimeFrom time = TimeFrom::clock;
  bool prefill = true;    // translate ahead what the program is seen to run
  double slow_down = 1;   // of what runs in a burst
  uint64_t seed = 0;
  bool follow_exec = true;  // what the program executes in its place; else it goes on without us
  WantedPart* only = nullptr;  // bursts begin there alone; null: anywhere
  bool begins_late = false;    // a program of ours has run before, unsampled
  // Called between bursts, in each turn of the loop: a copy can be made of us.
  std::function<void(double now)> meanwhile;
  // Called when sampling is over, though the program may go on for long.
  std::function<void()> when_over;
};

struct BurstRunCounts : Attempts {
  uint64_t bursts = 0;
  uint64_t instructions = 0;
  double burst_s = 0;
  double burst_cpu_s = 0;  // of the program, in bursts
  std::vector<double> pauses;
  profile::Timeline timeline;
  std::map<std::string, uint64_t> ended;
};

class BurstRun {
 public:
  // `weights` is told of each burst.
  BurstRun(shadow::Program program, std::unique_ptr<BurstEngine> engine,
           collect::SampleWeights& weights, BurstRunOptions options,
           const plan::Wishes& wishes);
  ~BurstRun();

  // A program that was just launched runs from here on.
  void let_go();
  // Until the program has ended, or its time is up, or somebody interrupted us. The program goes on
  // in the last two cases; nothing of ours is left in it.
  void run();

  const shadow::Program& program() const { return program_; }
  const plan::Ledger& ledger() const { return ledger_; }
  const plan::Plan& plan() const { return plan_; }
  const BurstRunCounts& counts() const { return counts_; }
  BurstEngine& engine() { return *engine_; }
  const std::vector<std::string>& warnings() const { return watch_.warnings(); }
  const RunWatch& watch() const { return watch_; }
  const WantedPart* only() const { return options_.only; }
  // Sampling is over, the program goes on.
  void stop() { watch_.stop(); }
  bool take_dump_wish() { return watch_.take_dump_wish(); }
  // From now on.
  void set_max_overhead(double share) {
    ledger_.set_share(share, elapsed());
    plan_.set_max_overhead(share);
    time_.set_max_overhead(share);
    note_setting("max-overhead", fmt::format("{:.4g}%", 100 * share));
  }
  // From the next burst on.
  void set_frequency(double hz) { plan_.set_frequency(hz); }
  // For the profile.
  void note_setting(std::string name, std::string value) {
    watch_.note_setting(std::move(name), std::move(value));
  }
  double sampling_s() const { return sampling_s_ > 0 ? sampling_s_ : elapsed(); }
  // The program's while it was sampled.
  double program_cpu_s() const { return cpu_s_; }
  double program_cpu_so_far() const { return program_cpu_now() - cpu_before_; }
  // Times of the profile.
  void finish_time(profile::Profile& profile) {
    time_.finish(sampling_s(), program_cpu_s(), profile);
  }
  void finish_time_of_copy(profile::Profile& profile) {
    time_.finish_copy(sampling_s(), program_cpu_so_far(), profile);
  }
  const std::string& why_no_time() const { return time_.why_not(); }

 private:
  bool handle_report();
  void handle(const ptrace::WaitOutcome& outcome);
  ProgramAccess access();
  void burst();
  void note_burst(uint64_t instructions);
  void note_missed(const Error& why, double now, double pause_s);
  struct Burst {
    double length;
    double begun;
    double cpu_begun;  // of the program
  };
  void run_burst(double length);
  double left_of(const Burst& burst, double now) const;
  void look();
  plan::Situation situation() const;
  void carry_out(const plan::Step& step);
  double random_length();
  double elapsed() const { return watch_.elapsed(); }
  double program_cpu_now() const;
  void leave_program();
  void note_exec();
  bool make_ready();
  void refuse(const Error& why);

  RunWatch watch_;
  TimeWatch time_;
  shadow::Program program_;
  std::unique_ptr<BurstEngine> engine_;
  collect::SampleWeights& weights_;
  BurstRunOptions options_;
  plan::Plan plan_;
  plan::Ledger ledger_;
  uint64_t signals_before_ = 0;  // this run
  BurstRunCounts counts_;
  std::mt19937_64 random_;
  bool is_refused_ = false;  // for good
  double service_s_ = 0;  // time in which the burst's threads waited for us
  double cpu_before_ = 0;
  double cpu_s_ = 0;
  double sampling_s_ = 0;
  bool leaves_ = false;  // it has executed another program, which is not followed
  unsigned generation_ = 0;  // of the program, as the engine knows it
  bool is_lost_ = false;     // it has executed another program unseen, which cannot be traced
};

}  // namespace shadowprof::sample
