// SPDX-License-Identifier: MIT
#include "sample/shadow_stretch.h"

#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "base/processor_time.h"
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
constexpr collect::ValueCondition kValuesOfReplicas{.warm_up = 4096, .burst = 1, .every = 4};
// A load that is timed waits for all before it, and takes as long as a hundred others: most of a
// replica's time would be theirs. So fewer of the first executions are captured, and loads are
// timed in one of so many windows.
constexpr uint64_t kWarmUpWithLoads = 64;
constexpr uint32_t kLoadsOneIn = 4;

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
  return options;
}

// Where several programs have code in common, it is not known in which of them it was seen.
bool may_capture_samples(const ShadowModeRequest& request) {
  return request.collection.captures_by_instruction() && request.engine == Engine::translator &&
         request.max_shadows == 1 && !request.verify && !request.follow &&
         request.attach_to.size() <= 1;
}

// Most of the time that recording values takes is for code that was recorded often already.
void capture_samples(trace::RunMailbox& seen_enough, Collection& collection,
                     shadow::SpaceOptions& space) {
  collect::ValueCollectorOptions& values = collection.value_options;
  if (collection.any_condition) {
    values.condition = kValuesOfReplicas;
    if (collection.latencies) values.condition.warm_up = kWarmUpWithLoads;
  }
  if (values.condition.all()) return;
  if (collection.latencies && collection.values) {
    space.lighter = collection.plan();
    space.lighter->load_cycles = false;
    space.lighter->addresses = collection.addresses;
    space.heavy_one_in = kLoadsOneIn;
  }
  values.seen_enough = space.seen_enough = &seen_enough;
  space.capture_one_in = values.condition.weight();
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
  profile_.run =
      begin_run("shadow", request_.command, request_.options, request_.wishes.seed + number);
  profile_.run.pid = guests.programs.front().program.pid().value;
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
  if (!request_.only.empty()) options_.only = &only_.emplace(request_.only, started_);
  if (request_.duration > 0)
    options_.duration = std::max(kShortest_s, request_.duration - sampled_before_s_);
  if (setting_.intervals) options_.wakes_at_s = setting_.intervals->interval_s();
  options_.meanwhile = [this](double now) { serve(now); };
  options_.when_over = [control = setting_.control] {
    if (control) control->close();
  };
  if (may_capture_samples(request_)) capture_samples(seen_enough_, collection_, options_.space);
  pipeline_.emplace(make_collectors(collection_, table_));
  sink_.emplace(*pipeline_, collection_.names_threads(), std::function<void()>(), true);
  directory_.emplace(request_.code_directory, conditions_of(request_, profile_.run.host));
  if (!request_.code_directory.empty()) options_.directory = &*directory_;
  plan::Wishes wishes = request_.wishes;
  wishes.seed += number;
  if (number != 0) wishes.delay_s = 0;
  wishes.max_overhead_share = guests.max_overhead_share.value_or(wishes.max_overhead_share);
  options_.most_log_s = most_log_s(wishes.max_overhead_share);
  sampled_.emplace(table_, *sink_, weights_, std::move(guests), options_, wishes, price);
}

std::string ShadowStretch::status(double now) const {
  const ShadowRunCounts& counts = sampled_->counts();
  return status_text({.pids = sampled_->pids(),
                      .mode = "shadow",
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
          .stop = [this] { sampled_->stop(); },
          .set_max_overhead = [this](double share) { sampled_->set_max_overhead(share); }};
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
  done.instructions_per_s = weights_.replicas().instructions_per_second();
  fill_sampled(done, *pipeline_, profile_);
  name_functions(profile_, table_, request_.top, started_, Inclusive::measured, generated_);
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
