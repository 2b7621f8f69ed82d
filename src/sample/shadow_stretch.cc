// SPDX-License-Identifier: MIT
#include "sample/shadow_stretch.h"

#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "base/processor_time.h"
#include "sample/burst_mode.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/syscall_counts.h"

namespace shadowprof::sample {
namespace {

// How much slower a replica executes than the program itself; the geometric mean of the programs
// in bench/full_mode.md with a trace that nobody reads. Only for the estimate of how much there was
// to profile, and only where no clock says it (--sample-size).
constexpr double kSlowDownRatio = 1.8;

// For values, once code was recorded so often.
constexpr collect::CaptureCondition kValuesOfReplicas{.warm_up = 4096, .burst = 1, .every = 4};
// Beside loads, which take a part of a replica's time, too.
constexpr uint64_t kWarmUpWithLoads = 64;
// A load that is timed waits for all before it, and takes as long as a hundred others. One in so
// many is, unless the user says in how many.
constexpr uint64_t kLoadsOneIn = 64;

// A duration of 0 is none.
constexpr double kShortest_s = 1e-6;
constexpr double kManyFaultsShare = 0.05;  // of the samples: not of the program's own making

void tell_of_kinds(const collect::SampleWeights& weights) {
  tell_of_weights("replicas", weights.replicas());
  tell_of_weights("brief samples", weights.brief_ones());
  detail("{:.1f} % of the profile are the brief samples'", 100 * weights.share_of_brief_ones());
}

// A replica has its program's shared memory as it is now, not as it was when it was made.
void warn_of_shared_memory(const ShadowRunCounts& counts, std::vector<std::string>& warnings) {
  const auto faults = counts.ended.find("fault");
  if (counts.private_pages == 0 || faults == counts.ended.end()) return;
  if (static_cast<double>(faults->second) < kManyFaultsShare * static_cast<double>(counts.forks))
    return;
  warnings.push_back(
      fmt::format("{} of {} samples ended by a fault: what the program, or another one, writes to "
                  "memory that it shares is seen by its replicas at once; --mode burst has none",
                  faults->second, counts.forks));
}

// What must be the same for code that was executed once to be executed again: which variant of a
// function a library chooses depends on the processor.
std::string conditions_of(const ShadowModeRequest& request, const profile::Host& host) {
  const emu::CapturePlan plan = request.collection.plan();
  return fmt::format("cpu {}\nversion {}\nplan {}{}{}\n", host.cpu, request.version,
                     plan.values ? 'v' : '-', plan.addresses ? 'a' : '-',
                     plan.load_cycles ? 'l' : '-');
}

ShadowRunOptions options_of(const ShadowModeRequest& request, const probe::BusyCore& busy_core) {
  ShadowRunOptions options;
  options.engine = request.engine;
  options.verify = request.verify;
  options.burst_length_s = request.burst_length_s;
  options.sample_size = request.sample_size;
  // Else each is asked for, or is to begin where a replica is not after its first one.
  options.later_samples = request.wishes.frequency_hz == 0 && request.only.empty();
  options.max_shadows = request.max_shadows;
  options.max_memory = request.max_memory;
  options.converge = request.converge;
  options.prefill = request.prefill && request.engine == Engine::translator;
  options.duration = request.duration;
  options.time = request.time;
  options.follow = request.follow;
  options.follow_exec = request.follow_exec;
  options.input_log = request.input_log;
  options.stacks = request.collection.calls || !request.collection.probes.empty();
  options.busy_core = busy_core;
  options.prices = request.prices;
  // The interpreter cannot harm the program either.
  options.may_interpret = !request.verify;
  options.interpret_together = request.collection.hazards || request.burst_length_s > 0;
  return options;
}

// Where several programs have code in common, it is not known in which of them it was seen.
bool may_have_windows(const ShadowModeRequest& request) {
  return request.engine == Engine::translator && request.max_shadows == 1 && !request.verify &&
         !request.follow && request.attach_to.size() <= 1;
}

// What is captured when: the user's conditions, and the mode's where there are none.
void decide_conditions(Collection& collection, bool values_have_windows, bool may_have_bouts) {
  collect::CaptureCondition& values = collection.value_options.condition;
  std::optional<collect::CaptureCondition>& latency = collection.latency_condition;
  if (collection.any_condition && values_have_windows) {
    values = kValuesOfReplicas;
    if (collection.latencies) values.warm_up = kWarmUpWithLoads;
  }
  if (!latency) latency = {.burst = 1, .every = may_have_bouts ? kLoadsOneIn : 1};
  collection.times_in_bouts = may_have_bouts && !latency->all();
}

// Where windows have the times, too, they are always open.
shadow::CaptureShares shares_of(const Collection& collection) {
  if (collection.times_in_bouts)
    return {.windows = collection.value_options.condition.share(),
            .bouts = collection.latency_condition->share()};
  return {.windows = collection.latencies ? 1 : collection.value_options.condition.share()};
}

// Most of the time that recording values takes is for code that was recorded often already, and
// more that timing loads takes.
void capture_less(trace::RunMailbox& seen_enough, const ShadowModeRequest& request,
                  Collection& collection, ShadowRunOptions& options) {
  const bool translates = request.engine == Engine::translator && !request.verify;
  const bool windows = may_have_windows(request) && collection.captures_by_instruction();
  decide_conditions(collection, windows, translates && collection.may_time_in_bouts());
  shadow::SpaceOptions& space = options.space;
  space.shares = shares_of(collection);
  if (windows) {
    seen_enough.want_all(space.shares.windows >= 1);
    space.seen_enough = collection.value_options.seen_enough = &seen_enough;
  }
  if (!collection.times_in_bouts) return;
  options.plan = collection.plan_without_times();
  space.in_bouts = collection.plan_of_bouts();
  // What is in windows is seen there.
  if (windows) space.in_bouts->values = false;
}

std::vector<Tid> pids_of(const Guests& guests) {
  std::vector<Tid> pids;
  for (const SampledProcess::Handed& guest : guests.programs) pids.push_back(guest.program.pid());
  return pids;
}

}  // namespace

ShadowStretch::ShadowStretch(const Setting& setting, Guests guests, unsigned number,
                             double sampled_s)
    : setting_(setting),
      request_(setting.request),
      generated_(perf_maps_of(pids_of(guests))),
      started_(std::time(nullptr)),
      sampled_before_s_(sampled_s),
      own_cpu_before_s_(number == 0 ? 0 : -processor_seconds_of(RUSAGE_SELF)),
      collection_(request_.collection) {
  profile_.run = begin_run(mode_of(request_), request_.command, request_.options,
                           request_.wishes.seed + number);
  profile_.run.pid = guests.programs.front().program.pid().value;
  if (setting.start != nullptr && number == 0) setting.start->fill(profile_);
  collection_.sampled = collection_.by_replicas = true;
  collection_.weights = &weights_;
  collection_.look_at_code(table_, started_);
  make_run(std::move(guests), number);
  first_.emplace();
}

ShadowStretch::~ShadowStretch() = default;

void ShadowStretch::make_run(Guests guests, unsigned number) {
  const probe::HostPrices* prices = request_.prices;
  const machine::FaultPrice price = prices ? prices->faults() : machine::FaultPrice{};
  options_ = options_of(request_, setting_.busy_core);
  options_.plan = collection_.plan();
  options_.begins_late = setting_.start != nullptr;
  if (!request_.only.empty()) options_.only = &only_.emplace(request_.only, started_);
  if (request_.duration > 0)
    options_.duration = std::max(kShortest_s, request_.duration - sampled_before_s_);
  if (setting_.intervals) options_.wakes_at_s = setting_.intervals->interval_s();
  options_.meanwhile = [this](double now) { serve(now); };
  options_.when_over = [control = setting_.control] {
    if (control) control->close();
  };
  settings_ = guests.settings;
  plan::Wishes wishes = request_.wishes;
  apply_settings(wishes);
  capture_less(seen_enough_, request_, collection_, options_);
  pipeline_.emplace(make_collectors(collection_, table_));
  sink_.emplace(*pipeline_, collection_.names_threads());
  directory_.emplace(request_.code_directory, conditions_of(request_, profile_.run.host));
  if (!request_.code_directory.empty()) options_.directory = &*directory_;
  wishes.seed += number;
  if (number != 0) wishes.delay_s = 0;
  wishes.max_overhead_share = guests.max_overhead_share.value_or(wishes.max_overhead_share);
  options_.most_log_s = most_log_s(wishes.max_overhead_share);
  sampled_.emplace(table_, *sink_, weights_, std::move(guests), options_, wishes, price);
}

std::string ShadowStretch::status(double now) const {
  const ShadowRunCounts& counts = sampled_->counts();
  return status_text({.pids = sampled_->pids(),
                      .mode = mode_of(request_),
                      .sampled_s = now,
                      .samples = counts.forks + counts.later + counts.bursts,
                      .instructions = counts.instructions,
                      .overhead_share = sampled_->ledger().spent_share(now),
                      .max_overhead_share = sampled_->ledger().share(),
                      .file = request_.snapshots.dump_file});
}

ControlledRun ShadowStretch::controlled(double now) {
  return {.who = [this] { return words_of(sampled_->pids()); },
          .status = [this, now] { return status(now); },
          .dump = [this] { return setting_.snapshots.want_dump(); },
          .dumped = [this](uint64_t number) { return setting_.snapshots.has_dumped(number); },
          .stop = [this] { sampled_->stop(); },
          .set_max_overhead = [this](double share) { sampled_->set_max_overhead(share); },
          .set = [this](const RunSetting& setting) { return set(setting); }};
}

// Those of the stretches before.
void ShadowStretch::apply_settings(plan::Wishes& wishes) {
  wishes.frequency_hz = settings_.frequency_hz.value_or(wishes.frequency_hz);
  options_.later_samples = wishes.frequency_hz == 0 && request_.only.empty();
  options_.sample_size = settings_.sample_size.value_or(options_.sample_size);
  if (const auto& values = settings_.conditions.values) {
    collection_.value_options.condition = *values;
    collection_.any_condition = false;
  }
  if (settings_.conditions.latency) collection_.latency_condition = settings_.conditions.latency;
  collection_.value_options.change = &value_change_;
}

Result<std::string> ShadowStretch::set(const RunSetting& setting) {
  std::string holds = fmt::format("{}: {}\n", setting.name, setting.value);
  const bool has_bursts = request_.burst_length_s > 0;
  switch (setting.what) {
    case RunSetting::What::frequency:
      if (has_bursts && setting.frequency_hz == 0) return fail("{}", kNoFrequencyInBursts);
      settings_.frequency_hz = setting.frequency_hz;
      sampled_->set_frequency(setting.frequency_hz);
      break;
    case RunSetting::What::sample_size:
      if (has_bursts) return fail("{}", kNoSampleSizeInBursts);
      settings_.sample_size = setting.sample_size;
      sampled_->set_sample_size(setting.sample_size);
      break;
    case RunSetting::What::condition:
      SP_TRY(set_condition(setting.condition));
      holds = conditions_text();
      break;
  }
  sampled_->note_setting(setting.name, setting.value);
  return holds;
}

Status ShadowStretch::set_condition(const Condition& condition) {
  const bool is_latency = condition.type == ConditionType::latency;
  if (!(is_latency ? collection_.latencies : collection_.values))
    return fail("this run collects no {}", is_latency ? "latencies" : "values");
  const bool by_values = collection_.value_options.seen_enough != nullptr;
  if (is_latency && condition.how.all() == collection_.times_in_bouts)
    return fail("whether each load is timed is said when a run begins: --condition latency=all");
  if (!is_latency && !by_values && collection_.value_options.by_call_site)
    return fail("values by call site are all looked at");
  settings_.conditions.of(condition.type) = condition.how;
  collect::CaptureCondition& values = collection_.value_options.condition;
  if (is_latency) {
    collection_.latency_condition = condition.how;
  } else {
    values.burst = condition.how.burst;
    values.every = condition.how.every;
    values.window_us = condition.how.window_us;
    if (!by_values) value_change_.set(values);
  }
  const shadow::CaptureShares shares = shares_of(collection_);
  seen_enough_.want_all(shares.windows >= 1);
  sampled_->set_shares(shares);
  return {};
}

std::string ShadowStretch::conditions_text() const {
  std::string text;
  const collect::CaptureCondition* values = &collection_.value_options.condition;
  const auto& latency = collection_.latency_condition;
  const bool by_values = collection_.value_options.seen_enough != nullptr;
  // Windows have both.
  if (by_values && collection_.latencies && !collection_.times_in_bouts) values = &*latency;
  if (collection_.values) text += fmt::format("values: {}\n", to_text(*values));
  if (collection_.latencies && latency) text += fmt::format("latency: {}\n", to_text(*latency));
  return text;
}

void ShadowStretch::serve(double now) {
  Snapshots& snapshots = setting_.snapshots;
  if (setting_.control) setting_.control->serve(sampled_before_s_ + now, controlled(now));
  if (sampled_->take_dump_wish()) snapshots.want_dump_or_warn();
  if (snapshots.is_due(now)) {
    own_cpu_at_copy_s_ = processor_seconds_of(RUSAGE_SELF);
    snapshots.take(now, *pipeline_, [this]() -> profile::Profile& { return profile_in_copy(); });
  }
  if (snapshots.enough()) sampled_->stop();
  IntervalWriter* intervals = setting_.intervals;
  if (intervals && now >= intervals->interval_s() && intervals->is_free()) sampled_->end_stretch();
}

// Most of it.
bool ShadowStretch::is_interpreted() const {
  const ShadowRunCounts& counts = sampled_->counts();
  return request_.engine == Engine::emulator ||
         (counts.bursts != 0 && 2 * counts.interpreted >= counts.instructions);
}

SampledRun ShadowStretch::describe() const {
  const ShadowRun& sampled = *sampled_;
  const ShadowRunCounts& counts = sampled.counts();
  SampledRun done;
  done.own_cpu_before_s = own_cpu_before_s_;
  profile::Overhead& overhead = done.overhead;
  overhead.budget_share = sampled.ledger().share();
  overhead.estimated_share = sampled.ledger().spent_share(sampled.sampling_s());
  fill_costs(sampled.ledger(), sampled.plan(), overhead);
  overhead.forks = counts.forks;
  overhead.extra_faults = static_cast<uint64_t>(counts.extra_faults);
  overhead.program_cpu_s = sampled.program_cpu_s();
  overhead.translated_blocks = counts.fragments;
  overhead.translation_s = counts.translation_s;
  overhead.timeline = counts.timeline;
  overhead.stops = {{"logged_stop", counts.logged_stops},
                    {"logged_call", counts.logged_calls},
                    {"signal", sampled.signals()}};
  tell_counters(shadow::kReplicaStops, counts, overhead.stops);
  tell_attempts(counts, overhead.stops);
  const plan::Convergence& convergence = sampled.convergence();
  overhead.sampling = {{"translated_ahead", counts.ahead},
                       {"waited_for_memory", counts.no_memory},
                       {"most_shadows", counts.most_shadows},
                       {"windows", convergence.windows()},
                       {"windows_alike", convergence.agreeing()},
                       {"phase_changes", convergence.changes()},
                       {"bursts", counts.bursts}};
  done.pauses = counts.pauses;
  done.samples = counts.forks + counts.later + counts.bursts;
  done.ended = counts.ended;
  done.guest_s = counts.guest_s;
  done.instructions = counts.instructions - (done.guest_s > 0 ? counts.interpreted : 0);
  done.engine_cpu_s = counts.engine_cpu_s;
  if (!is_interpreted()) done.slow_down = kSlowDownRatio;
  return done;
}

// Before processor time is filled in.
void ShadowStretch::finish_parts() {
  const ShadowRunCounts& counts = sampled_->counts();
  profile_.run.duration_s = sampled_->sampling_s();
  if (request_.only.empty())
    weights_.conclude(sampled_->time().account().equal_ticks_by_region());
  else
    weights_.conclude();  // the clock's ticks are the whole program's
  tell_of_kinds(weights_);
  pipeline_->finish(profile_);
  sink_->name_threads(profile_);
  if (is_interpreted()) profile_.run.engine = "emulator";
  if (const Verifier* verifier = sampled_->verifier())
    profile_.coverage.verified = verifier->counts();
  fill_syscalls(counts.by_number, counts.ended_by_number, profile_.syscalls);
}

void ShadowStretch::name_and_fill() {
  SampledRun done = describe();
  done.follows = request_.follow;
  done.assumed_speeds = weights_.assume_speeds() || !request_.only.empty();
  if (only_) done.part = only_->share_of_time();
  const collect::SampleSeries& replicas = weights_.replicas();
  done.instructions_per_s = replicas.instructions_per_second();
  const shadow::WarmGain& gain = sampled_->counts().warm_gain;
  if (replicas.tell_native_speeds()) done.instructions_per_s *= gain.ratio();
  if (gain.stretches() != 0)
    detail("with warm caches {:.2f} times as fast as in usual native stretches ({} long ones)",
           gain.ratio(), gain.stretches());
  fill_sampled(done, *pipeline_, profile_);
  name_functions(profile_, table_,
                 {.top = request_.top,
                  .started = started_,
                  .hide_values = request_.collection.hide_values,
                  .generated = generated_});
  sampled_->watch().fill(profile_);
}

// In a copy of this process: what it changes is its own.
profile::Profile& ShadowStretch::profile_in_copy() {
  sampled_->be_copy();
  own_cpu_before_s_ += own_cpu_at_copy_s_;
  set_verbosity(Verbosity::quiet);
  finish_parts();
  sampled_->finish_time_of_copy(profile_);
  name_and_fill();
  profile_.tool_version = request_.version;
  return profile_;
}

void ShadowStretch::write_interval() {
  own_cpu_at_copy_s_ = processor_seconds_of(RUSAGE_SELF);
  setting_.intervals->write(*pipeline_,
                            [this]() -> profile::Profile& { return profile_in_copy(); });
}

RunResult ShadowStretch::conclude() {
  RunResult result;
  profile_.run.exit = exit_of(sampled_->first());
  profile_.run.until_error = setting_.snapshots.enough();
  result.warnings = sampled_->warnings();
  warn_of_shared_memory(sampled_->counts(), result.warnings);
  const ShadowRunCounts& counts = sampled_->counts();
  warn_if_never_there(request_.only, counts, counts.forks + counts.bursts, result.warnings);
  finish_parts();
  sampled_->finish_time(profile_);
  if (!sampled_->why_no_time().empty()) detail("no processor time: {}", sampled_->why_no_time());
  name_and_fill();
  if (options_.directory) directory_->store(table_, profile_);
  for (const std::string& warning : directory_->warnings()) result.warnings.push_back(warning);
  if (const Status sound = profile::check_consistency(profile_); !sound)
    result.internal_error = sound.error().message;
  result.profile = std::move(profile_);
  return result;
}

}  // namespace shadowprof::sample
