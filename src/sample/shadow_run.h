// SPDX-License-Identifier: MIT
//
// The event loop of shadow mode: the programs, their replicas, and the plan (plan/plan.h) that says
// what is done next. No replica decides anything: when one is idle, the loop asks the plan and
// tells it.
//
//   serve reports ─▶ settle the ledger ─▶ step = plan.next(situation) ─▶ carry it out, or wait
//
// There are several programs if several were given, or children are followed. A sample is taken of
// one that runs at that moment, so each is sampled as much as it runs.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/progress.h"
#include "collect/weights/sample_weights.h"
#include "plan/brief_length.h"
#include "plan/convergence.h"
#include "plan/crowding.h"
#include "plan/plan.h"
#include "probe/contention.h"
#include "probe/host_prices.h"
#include "sample/attempts.h"
#include "sample/replica_engine.h"
#include "sample/replica_samples.h"
#include "sample/run_settings.h"
#include "sample/run_watch.h"
#include "sample/sampled_process.h"
#include "sample/time_watch.h"
#include "sample/verifier.h"
#include "shadow/execution.h"
#include "trace/trace_sink.h"

namespace shadowprof::sample {

// Where the budget does not pay for a step within so long, another takes its place, and it is said.
inline constexpr double kSeldom_s = 1;

// What the input log of one sample may cost the program: what the budget gives in a second.
inline double most_log_s(double max_overhead_share) {
  constexpr double kLeast_s = 0.005;
  return std::max(kLeast_s, max_overhead_share);
}

enum class InputLogging : uint8_t { automatic, on, off };

struct ShadowRunOptions {
  Engine engine = Engine::translator;
  bool verify = false;        // a share of the samples is run by both and compared
  double burst_length_s = 0;  // not 0: there are bursts of about so long, and no forks
  uint64_t sample_size = 0;   // instructions; 0: the plan says
  bool later_samples = true;  // of replicas that have given one
  size_t max_shadows = 1;
  bool prefill = true;                 // translate ahead what the program is seen to run
  CodeDirectory* directory = nullptr;  // of earlier runs; null: none
  uint64_t max_memory = 0;             // bytes, of ours and the replicas'; 0: as much as there is
  bool converge = true;                // fewer samples of a program that goes on doing the same
  double duration = 0;
  double wakes_at_s = 0;  // `meanwhile` wants to be called then; 0: no matter when
  TimeFrom time = TimeFrom::clock;
  bool follow = false;      // the programs' children, too
  bool follow_exec = true;  // what they execute in their place; else they go on without us
  InputLogging input_log = InputLogging::automatic;
  double most_log_s = 0.01;  // what the input log of one sample may cost the program
  probe::BusyCore busy_core;
  probe::HostPrices* prices = nullptr;  // what is known of this host; null: nothing more
  emu::CapturePlan plan{};
  shadow::SpaceOptions space{{.through_jumps = false}};
  bool stacks = false;  // samples begin with the call stacks of their threads
  WantedPart* only = nullptr;  // samples begin there alone; null: anywhere
  bool begins_late = false;    // a program of ours has run before, unsampled
  // Called in each turn of the loop, at a moment at which a copy can be made of us.
  std::function<void(double now)> meanwhile;
  // Called when sampling is over, though the program may go on for long.
  std::function<void()> when_over;
  // Where a fork costs a program too much, what it does next is interpreted instead.
  bool may_interpret = false;
  // What several running threads do to one another is of interest. Else what one of them does,
  // while the others go on, says as much for a part of the price.
  bool interpret_together = false;
};

struct ShadowRunCounts : shadow::ReplicaStops, Attempts {
  uint64_t replicas = 0;  // that are dead
  uint64_t moments = 0;   // at which replicas were forked: one, or two to be compared
  uint64_t forks = 0;
  uint64_t later = 0;   // samples of replicas that had given one
  uint64_t bursts = 0;  // samples without a fork
  uint64_t instructions = 0;
  uint64_t interpreted = 0;  // of them, in bursts
  uint64_t fragments = 0;
  uint64_t ahead = 0;         // of the fragments, translated while no sample ran
  uint64_t no_memory = 0;     // samples that waited for memory
  uint64_t most_shadows = 0;  // that lived at one time
  uint64_t logged_stops = 0;  // of the program, for its input log
  uint64_t logged_calls = 0;  // answered from it
  double extra_faults = 0;
  double translation_s = 0;
  double engine_cpu_s = 0;   // of those who executed samples
  double guest_s = 0;        // on their clocks, if they have any
  shadow::WarmGain warm_gain;
  double replica_cpu_s = 0;  // of replicas among them
  std::vector<double> pauses;
  profile::Timeline timeline;
  std::map<std::string, uint64_t> ended;
  std::map<unsigned, uint64_t> by_number;
  std::map<unsigned, uint64_t> ended_by_number;
};

void tell_of_price(const machine::FaultPrice& price);

// What one run that samples leaves to the next, which goes on with the same programs.
struct Guests {
  std::vector<SampledProcess::Handed> programs;
  std::set<Tid> newborn;  // that have not stopped yet
  // From then on the budget counts, by the clock of the run that gets them; before its beginning,
  // if some of it is left. Nothing: from the delay on.
  std::optional<double> budget_from_s;
  std::optional<double> max_overhead_share;  // nothing: as it was wished
  RunSettings settings{};
};

class ShadowRun {
 public:
  // A replica's, roughly, where no clock says it.
  static constexpr double kInstructions_per_s = 2e9;

  // `guests`: at least one program. The first is the one whose end is told.
  // `weights` is told of each sample.
  ShadowRun(trace::BlockTable& table, trace::TraceSink& sink, collect::SampleWeights& weights,
            Guests guests, ShadowRunOptions options, const plan::Wishes& wishes,
            const machine::FaultPrice& price);
  ~ShadowRun();

  // A program that was just launched runs from here on.
  void let_go();
  // Until all programs have ended, or their time is up, or somebody interrupted us. The programs go
  // on in the last two cases; nothing of ours is left in them. So it is, too, if std::bad_alloc is
  // thrown (base/short_memory.h).
  void run();

  const shadow::Program& first() const { return first_->program(); }
  // Signals that went through us to the programs.
  uint64_t signals() const;
  const plan::Plan& plan() const { return plan_; }
  const plan::Ledger& ledger() const { return ledger_; }
  const ShadowRunCounts& counts() const { return counts_; }
  const plan::Convergence& convergence() const { return convergence_; }
  const std::vector<std::string>& warnings() const { return watch_.warnings(); }
  const RunWatch& watch() const { return watch_; }
  // Sampling is over, the programs go on.
  void stop() { watch_.stop(); }
  // The same, but they stay traced for the run that goes on with them.
  void end_stretch() { goes_on_ = true; }
  // After run(): the stretch is over, and not sampling.
  bool goes_on() const { return goes_on_; }
  // If it goes on, at last: nothing else is asked of this run after that.
  Guests hand_over();
  bool take_dump_wish() { return watch_.take_dump_wish(); }
  // From now on, for what comes after this run, too.
  void set_max_overhead(double share);
  // From the next sample on; 0: as the budget allows, and as the plan says.
  void set_frequency(double hz);
  void set_sample_size(uint64_t instructions) { options_.sample_size = instructions; }
  // From the next trace buffer on.
  void set_shares(const shadow::CaptureShares& shares);
  // For the profile.
  void note_setting(std::string name, std::string value) {
    watch_.note_setting(std::move(name), std::move(value));
  }
  // Process ids of the programs that are sampled now.
  std::vector<Tid> pids() const;
  // Null: nothing was verified.
  const Verifier* verifier() const { return verifier_.get(); }
  // Times of the profile.
  void finish_time(profile::Profile& profile) {
    time_.finish(sampling_s(), watched_cpu_s(), profile);
  }
  void finish_time_of_copy(profile::Profile& profile) {
    time_.finish_copy(sampling_s(), watched_cpu_s(), profile);
  }
  const TimeWatch& time() const { return time_; }
  const std::string& why_no_time() const { return time_.why_not(); }
  // The programs' while they were sampled, with that of children that nobody follows.
  double program_cpu_s() const;
  // Theirs alone, about: up to each one's last look, and as busy behind it as before.
  double watched_cpu_s() const;
  // We are a copy of the process that samples: the programs are nobody's children here.
  void be_copy() { is_copy_ = true; }
  // How long samples were taken: up to the programs' end, or until sampling was over.
  double sampling_s() const { return sampling_s_ > 0 ? sampling_s_ : elapsed(); }

 private:
  using ProgramRef = std::shared_ptr<SampledProcess>;
  void run_to_end();
  void tell_progress();
  struct Sample {
    ProgramRef program;
    std::shared_ptr<shadow::InputLog> log;
    std::unique_ptr<shadow::Execution> executor;
    plan::PastLife life;
    double forked_at = 0;
    uint64_t faults_at_fork = 0;  // of the program
    double our_cpu_at_fork = 0;
    double length = 0;  // seconds
    shadow::Budget budget{};
    std::unique_ptr<ReplicaSamples> numbers;  // null: they are verified
    unsigned generation = 0;                  // of the program
    double sample_began = 0;  // the present one of its replica, or its rest, if it is a later one
    double went_on_age = 0;   // when it was told to, last
    double executed_before_s = 0;  // by then
    bool has_worked = true;  // since, and the ledger does not know yet what that cost
    bool has_ended = false;
    bool verifies = false;  // one of a pair
    double began() const { return std::max(forked_at, sample_began); }
  };

  // shadow_run.cc
  bool is_over() const;
  void carry_out(const plan::Step& step);
  void proceed(Sample& sample, const plan::Step& step);
  void tell_of(const plan::Step& step);
  bool may_translate_first() const;
  bool handle_reports();
  void handle(const ptrace::WaitOutcome& outcome);
  ProgramAccess access();
  void handle_program(const ProgramRef& program, const ptrace::WaitOutcome& outcome);
  void handle_stranger(const ptrace::WaitOutcome& outcome);
  void forget(const ProgramRef& program);
  void forget_lost();
  bool is_to_be_left(const SampledProcess& program) const {
    return !options_.follow_exec && program.program().generation() != 0;
  }
  void note_executed(const ProgramRef& program);
  void leave_executed();
  Status make_space(SampledProcess& program) {
    return program.make_space(options_.engine, table_, options_.space);
  }
  bool fill_ahead();
  bool fill_ahead(SampledProcess& program);
  void look_at_program();
  void look_after_replicas();
  bool is_too_large(const ProgramRef& program);
  uint64_t memory_of(const Sample& sample) const;
  bool is_crowded_out(const Sample& sample) const;
  double cost_of_pages(SampledProcess& program) const;
  bool is_too_dear(const Sample& sample) const;
  bool all_rest() const;
  bool all_are_old() const;
  void wait_until(double moment);
  void end_replicas();
  void leave(const ProgramRef& program);
  void leave_programs();
  void leave_newborn();
  double next_event() const;
  double elapsed() const { return watch_.elapsed(); }

  // shadow_samples.cc
  ProgramRef choose();
  void fork(const plan::Step& step);
  bool is_to_be_verified() const;
  bool keeps_log_of(const ProgramRef& program) const;
  bool may_burst_beside_replicas(const ProgramRef& program) const;
  std::optional<double> interpret(SampledProcess& program);
  void compare_kinds();
  void burst(const plan::Step& step);
  double nap_s();
  void note_asleep(const SampledProcess& program);
  void note_no_replica(const SampledProcess& program, const Error& why, double pause_s);
  void charge_pauses_in_vain();
  void note_elsewhere(double pause_s);
  std::string why_no_fork_yet(const plan::Situation& situation) const;
  void tell_of_bursts(const plan::Step& step);
  void tell_of_wait(const plan::Situation& situation, double seconds);
  shadow::Budget budget_of(double length) const;
  void begin(Sample sample);
  void begin_verification(std::vector<shadow::Replica> replicas, Sample sample);
  void conclude_verification();

  // shadow_situation.cc
  plan::Prices prices() const;
  shadow::WarmGain warm_gain() const;  // of all replicas up to now
  ProgramRef candidate() const;
  Sample* idle_sample();
  // The program's processor time; of several the time.
  double used_s(SampledProcess& program) const {
    return programs_.size() == 1 ? program.used() : elapsed();
  }
  plan::Situation situation();
  plan::IdleReplica idle_replica(const Sample& sample, double copied_pages, double now);
  double charge_for_caches(Sample& sample, double age_s, double copied_pages);
  void charge_for_work(Sample& sample, const plan::Situation& s);
  bool may_go_on(const Sample& sample) const;
  bool may_last(const SampledProcess& program) const;
  bool is_alone(const SampledProcess& program) const;
  bool is_short_of_memory(const SampledProcess& program);
  bool may_have_core(SampledProcess& program, double now);
  bool is_about_busy_core(const SampledProcess& program) const;
  void look_at_busy_core();
  void look_at_core(const Sample& sample);
  void rest_at_shared_core(const Sample& sample);

  // shadow_accounts.cc
  void note_end(Sample& sample);
  bool is_to_be_settled() const;
  void settle_accounts();
  void note_prices();
  void finish(Sample& sample);
  void add_up(Sample& sample);
  void tell_of(const Sample& sample) const;
  static plan::Waiting waiting_of(const Sample& sample, shadow::ProcessorTime time);
  double take_own_cpu();
  double guest_seconds(const Sample& sample) const;
  static double executed_seconds(const Sample& sample);
  double clock_seconds(const Sample& sample) const;  // 0: its length is in instructions
  bool wants_log() const;
  void gather_input(const Sample& sample);
  void finish_log(const Sample& sample, const shadow::Ending& ending);

  RunWatch watch_;
  TimeWatch time_;
  trace::BlockTable& table_;
  trace::TraceSink& sink_;
  collect::SampleWeights& weights_;
  std::vector<ProgramRef> programs_;  // that live
  ProgramRef first_;
  std::set<Tid> newborn_;  // that have not stopped yet
  std::set<Tid> left_;     // that have executed another program, and are not to be sampled
  ShadowRunOptions options_;
  plan::Plan plan_;
  plan::Ledger ledger_;
  machine::FaultPrice price_;
  double timed_load_s_ = 0;
  ShadowRunCounts counts_;
  std::mt19937_64 random_;  // which program, and which of its threads
  plan::Convergence convergence_;
  Progress progress_{"sampling"};
  plan::Crowding crowding_;
  plan::BriefLength brief_length_;
  probe::SharedCore shared_core_;
  double delay_;
  ProgramRef candidate_;           // of the last sample
  bool core_is_idle_ = true;       // when it was looked for one
  double looks_for_core_at_s_ = 0;  // again
  bool interprets_ = false;        // bursts are taken because no fork can be, soon
  double forks_again_at_ = 0;      // the program cannot be forked before
  const char* no_fork_ = nullptr;  // why
  double settled_at_ = 0;
  double waits_until_s_ = 0;  // the plan has nothing to do before
  std::optional<double> fork_variance_;
  std::optional<double> burst_variance_;
  std::set<plan::Why> told_;  // since the last fork
  double looks_at_busy_core_s_ = 0;
  double checks_at_ = 0;  // replicas, again
  double looks_at_memory_ = 0;
  bool memory_was_short_ = false;
  bool told_of_forks_ = false;  // that they are dear
  double used_at_nap_s_ = 0;    // by the programs, when they were last seen to sleep
  double input_need_ = 0;       // share of the last samples that ended for want of input, or had it
  double busy_since_ = 0;       // this thread has not looked for reports since
  std::vector<Sample> samples_;
  double own_cpu_s_ = 0;  // when take_own_cpu() was last called
  // Those of programs that have ended.
  double past_cpu_s_ = 0;
  double cpu_before_s_ = 0;  // of the first program, before it was sampled, where it is ours
  uint64_t past_signals_ = 0;
  std::unique_ptr<Verifier> verifier_;
  bool have_ended_ = false;  // all programs, while they were sampled
  double sampling_s_ = 0;
  bool first_is_left_ = false;  // before sampling was over
  bool is_copy_ = false;
  bool goes_on_ = false;
};

}  // namespace shadowprof::sample
