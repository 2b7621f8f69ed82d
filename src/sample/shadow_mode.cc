// SPDX-License-Identifier: MIT
#include "sample/shadow_mode.h"

#include <algorithm>

#include "base/log.h"
#include "collect/pipeline.h"
#include "profile/file/json_file.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/pipeline_sink.h"
#include "sample/sampled_program.h"
#include "sample/shadow_run.h"
#include "sample/snapshots.h"
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

constexpr double kManyFaultsShare = 0.05;   // of the samples: not of the program's own making

void tell_of_kinds(const collect::SampleWeights& weights) {
  tell_of_weights("replicas", weights.replicas());
  tell_of_weights("brief samples", weights.brief_ones());
  detail("{:.1f} % of the profile are the brief samples'", 100 * weights.share_of_brief_ones());
}

// Most of it.
bool is_interpreted(const ShadowRunCounts& counts, const ShadowModeRequest& request) {
  return request.engine == Engine::emulator || 2 * counts.interpreted > counts.instructions;
}

SampledRun describe(const ShadowRun& sampled, const ShadowModeRequest& request) {
  const ShadowRunCounts& counts = sampled.counts();
  SampledRun done;
  profile::Overhead& overhead = done.overhead;
  overhead.budget_share = request.wishes.max_overhead_share;
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
  overhead.sampling = {
      {"translated_ahead", counts.ahead},        {"waited_for_memory", counts.no_memory},
      {"most_shadows", counts.most_shadows},     {"windows", convergence.windows()},
      {"windows_alike", convergence.agreeing()}, {"phase_changes", convergence.changes()},
      {"bursts", counts.bursts}};
  done.pauses = counts.pauses;
  done.samples = counts.forks + counts.later + counts.bursts;
  done.ended = counts.ended;
  done.guest_s = counts.guest_s;
  done.instructions = counts.instructions - (done.guest_s > 0 ? counts.interpreted : 0);
  done.engine_cpu_s = counts.engine_cpu_s;
  if (!is_interpreted(counts, request)) done.slow_down = kSlowDownRatio;
  return done;
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
  options.later_samples = request.wishes.frequency_hz == 0;  // else each is asked for
  options.max_shadows = request.max_shadows;
  options.max_memory = request.max_memory;
  options.converge = request.converge;
  options.prefill = request.prefill && request.engine == Engine::translator;
  options.duration = request.duration;
  options.time = request.time;
  options.follow = request.follow;
  options.follow_exec = request.follow_exec;
  options.input_log = request.input_log;
  // What the budget gives in a second.
  options.most_log_s = std::max(0.005, request.wishes.max_overhead_share);
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

// What a profile is made of.
struct Parts {
  const ShadowModeRequest& request;
  ShadowRun& sampled;
  collect::SampleWeights& weights;
  collect::Pipeline& pipeline;
  const trace::BlockTable& table;
  const std::vector<symbols::PerfMapPlace>& generated;
  int64_t started;
};

// Before processor time is filled in.
void finish_parts(const Parts& parts, profile::Profile& profile) {
  const ShadowRunCounts& counts = parts.sampled.counts();
  parts.weights.conclude(parts.sampled.time().account().equal_ticks_by_cell());
  tell_of_kinds(parts.weights);
  parts.pipeline.finish(profile);
  if (is_interpreted(counts, parts.request)) profile.run.engine = "emulator";
  if (const Verifier* verifier = parts.sampled.verifier())
    profile.coverage.verified = verifier->counts();
  fill_syscalls(counts.by_number, counts.ended_by_number, profile.syscalls);
}

void name_and_fill(const Parts& parts, profile::Profile& profile) {
  SampledRun done = describe(parts.sampled, parts.request);
  done.follows = parts.request.follow;
  done.assumed_speeds = parts.weights.assume_speeds();
  done.instructions_per_s = parts.weights.replicas().instructions_per_second();
  fill_sampled(done, parts.pipeline, profile);
  name_functions(profile, parts.table, parts.request.top, parts.started, Inclusive::measured,
                 parts.generated);
  parts.sampled.watch().fill(profile);
}

// In a copy of this process, which ends then: whoever waits for the file waits for the next one.
void write_snapshot(const Parts& parts, profile::Profile& profile) {
  profile.run.duration_s = parts.sampled.sampling_s();
  finish_parts(parts, profile);
  parts.sampled.finish_time_of_copy(profile);
  name_and_fill(parts, profile);
  profile.tool_version = parts.request.version;
  [[maybe_unused]] const Status written = profile::write_profile(profile, Snapshots::file());
}

}  // namespace

Result<RunResult> run_shadow_mode(const ShadowModeRequest& request) {
  RunResult result;
  profile::Profile& profile = result.profile;
  profile.run = begin_run("shadow", request.command, request.options, request.wishes.seed);
  const int64_t started = std::time(nullptr);

  SP_ASSIGN(const InheritedLimits limits, InheritedLimits::raise());
  const machine::FaultPrice price =
      request.prices ? request.prices->faults() : machine::FaultPrice{};
  const probe::BusyCore busy_core =
      request.prices ? request.prices->busy_core() : probe::BusyCore{};
  detail("a busy core costs {:.1f} %", 100 * busy_core.share);
  tell_of_price(price);
  block_awaited_signals();
  SP_ASSIGN(std::vector<shadow::Program> programs,
            find_programs(request.launch, request.attach_to, request.follow));
  profile.run.pid = programs.front().pid().value;
  if (request.launch) limits.give_to(programs.front().pid());  // it has not executed anything yet
  std::vector<Tid> pids;
  for (const shadow::Program& program : programs) pids.push_back(program.pid());
  const std::vector<symbols::PerfMapPlace> generated = perf_maps_of(pids);

  trace::BlockTable table;
  Collection collection = request.collection;
  collection.sampled = collection.by_replicas = true;
  collect::SampleWeights weights;
  collection.weights = &weights;
  collection.find_probed_code(table, started);
  ShadowRunOptions options = options_of(request, busy_core);
  options.plan = collection.plan();
  trace::RunMailbox seen_enough;
  if (may_capture_samples(request)) capture_samples(seen_enough, collection, options.space);
  collect::Pipeline pipeline(make_collectors(collection, table));
  PipelineSink sink(pipeline);
  CodeDirectory directory(request.code_directory, conditions_of(request, profile.run.host));
  if (!request.code_directory.empty()) options.directory = &directory;
  ShadowRun* running = nullptr;
  Snapshots snapshots;
  options.snapshot = [&](double now) {
    if (!snapshots.is_due(now)) return;
    snapshots.take(now, pipeline, [&] {
      write_snapshot({request, *running, weights, pipeline, table, generated, started}, profile);
    });
  };
  ShadowRun sampled(table, sink, weights, std::move(programs), options, request.wishes, price);
  running = &sampled;
  const Parts parts{request, sampled, weights, pipeline, table, generated, started};
  serve_first();
  if (request.launch) sampled.let_go();
  sampled.run();
  profile.run.duration_s = sampled.sampling_s();
  profile.run.exit = exit_of(sampled.first());
  result.warnings = sampled.warnings();
  warn_of_shared_memory(sampled.counts(), result.warnings);

  finish_parts(parts, profile);
  sampled.finish_time(profile);
  if (!sampled.why_no_time().empty()) detail("no processor time: {}", sampled.why_no_time());
  name_and_fill(parts, profile);
  if (options.directory) directory.store(table, profile);
  for (const std::string& warning : directory.warnings()) result.warnings.push_back(warning);
  if (const Status sound = profile::check_consistency(profile); !sound)
    result.internal_error = sound.error().message;
  return result;
}

}  // namespace shadowprof::sample
