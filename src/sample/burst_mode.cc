// SPDX-License-Identifier: MIT
#include "sample/burst_mode.h"

#include <unistd.h>

#include <ctime>

#include "base/log.h"
#include "base/processor_time.h"
#include "collect/pipeline.h"
#include "sample/burst_emulator.h"
#include "sample/burst_run.h"
#include "sample/burst_step.h"
#include "sample/burst_translator.h"
#include "sample/control_socket.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/pipeline_sink.h"
#include "sample/sampled_program.h"
#include "sample/serves_first.h"
#include "sample/snapshots.h"
#include "sample/start_wait.h"
#include "sample/syscall_counts.h"

namespace shadowprof::sample {
namespace {

// How much slower a thread runs in the code cache, without its stops: geometric means of full
// mode's programs in bench/full_mode.md (engine; counting).
constexpr double kSlowDownRatio = 1.9;
constexpr const char* kExperimental =
    "bursts in the code cache are experimental: see docs/burst-mode.md";

SampledRun describe(BurstRun& run, double max_overhead, uint64_t instructions) {
  const BurstRunCounts& counts = run.counts();
  const BurstTotals totals = run.engine().totals();
  SampledRun done;
  profile::Overhead& overhead = done.overhead;
  overhead.budget_share = max_overhead;
  overhead.estimated_share = run.ledger().spent_share(run.sampling_s());
  fill_costs(run.ledger(), run.plan(), overhead);
  overhead.translated_blocks = totals.fragments;
  overhead.translation_s = totals.translation_s;
  overhead.timeline = counts.timeline;
  overhead.stops = totals.stops;
  tell_attempts(counts, overhead.stops);
  overhead.stops["native_signal"] = run.program().signals();
  done.pauses = counts.pauses;
  done.samples = counts.bursts;
  done.ended = counts.ended;
  done.instructions = instructions;
  done.engine_cpu_s = counts.burst_cpu_s;
  if (!run.engine().is_in_our_process()) done.slow_down = kSlowDownRatio;
  return done;
}

const char* name_of(BurstEngineKind engine) {
  switch (engine) {
    case BurstEngineKind::step:
      return "step";
    case BurstEngineKind::emulator:
      return "emulator";
    case BurstEngineKind::translator:
      break;
  }
  return "translator";
}

std::unique_ptr<BurstEngine> make_engine(const BurstModeRequest& request,
                                         const Collection& collection, trace::BlockTable& table,
                                         trace::TraceSink& sink) {
  switch (request.engine) {
    case BurstEngineKind::step:
      return std::make_unique<BurstStep>(table, sink);
    case BurstEngineKind::emulator:
      return std::make_unique<BurstEmulator>(table, sink, collection.plan(), collection.calls);
    case BurstEngineKind::translator:
      break;
  }
  return std::make_unique<BurstTranslator>(table, sink, collection);
}

// What a profile is made of, at the end or in a copy of this process.
struct BurstParts {
  const BurstModeRequest& request;
  const Collection& collection;
  BurstRun& run;
  collect::SampleWeights& weights;
  const PipelineSink& sink;
  const trace::BlockTable& table;
  const std::vector<symbols::PerfMapPlace>& generated;
  int64_t started;
  bool tracing;
  collect::ConditionChange& value_change;
  double own_cpu_before_s = 0;  // see SampledRun
};

// Before processor time is filled in.
void finish_parts(const BurstParts& parts, profile::Profile& profile) {
  profile.run.duration_s = parts.run.sampling_s();
  parts.weights.conclude();
  if (parts.collection.weights) tell_of_weights("bursts", parts.weights.replicas());
  parts.sink.pipeline().finish(profile);
  parts.sink.name_threads(profile);
  parts.run.engine().finish(profile);
  fill_syscalls(parts.run.engine().totals().by_number, {}, profile.syscalls);
}

void name_and_fill(const BurstParts& parts, double program_cpu_s, profile::Profile& profile) {
  SampledRun done =
      describe(parts.run, parts.run.ledger().share(), profile.coverage.instructions_profiled);
  done.own_cpu_before_s = parts.own_cpu_before_s;
  done.overhead.program_cpu_s = program_cpu_s;
  done.assumed_speeds = parts.weights.assume_speeds() || !parts.request.only.empty();
  if (parts.run.only() != nullptr) done.part = parts.run.only()->share_of_time();
  fill_sampled(done, parts.sink.pipeline(), profile);
  name_functions(profile, parts.table,
                 {.top = parts.request.top,
                  .started = parts.started,
                  .inclusive = parts.tracing ? Inclusive::measured : Inclusive::estimate,
                  .hide_values = parts.request.collection.hide_values,
                  .generated = parts.generated});
  parts.run.watch().fill(profile);
}

// In a copy of this process: what it changes is its own.
profile::Profile& finish_in_copy(const BurstParts& parts, profile::Profile& profile) {
  set_verbosity(Verbosity::quiet);
  finish_parts(parts, profile);
  parts.run.finish_time_of_copy(profile);
  name_and_fill(parts, parts.run.program_cpu_so_far(), profile);
  profile.tool_version = parts.request.version;
  return profile;
}

// Values are looked at by the collector, in windows of the trace; a burst is all that is timed.
Result<std::string> set_in(BurstRun& run, const Collection& collection,
                           collect::ConditionChange& value_change, const RunSetting& setting) {
  switch (setting.what) {
    case RunSetting::What::sample_size:
      return fail("{}", kNoSampleSizeInBursts);
    case RunSetting::What::frequency:
      if (setting.frequency_hz == 0) return fail("{}", kNoFrequencyInBursts);
      run.set_frequency(setting.frequency_hz);
      break;
    case RunSetting::What::condition:
      if (setting.condition.type == ConditionType::latency) return fail("{}", kNoTimesInBursts);
      if (!collection.values) return fail("this run collects no values");
      if (collection.value_options.by_call_site)
        return fail("values by call site are all looked at");
      value_change.set(setting.condition.how);
      break;
  }
  run.note_setting(setting.name, setting.value);
  return fmt::format("{}: {}\n", setting.name, setting.value);
}

ControlledRun controlled(double now, BurstRun& run, Snapshots& snapshots, const std::string& file,
                         const Collection& collection, collect::ConditionChange& value_change) {
  const auto status = [&run, &file, now] {
    return status_text({.pids = {run.program().pid()},
                        .mode = "burst",
                        .sampled_s = now,
                        .samples = run.counts().bursts,
                        .instructions = run.counts().instructions,
                        .overhead_share = run.ledger().spent_share(now),
                        .max_overhead_share = run.ledger().share(),
                        .file = file});
  };
  return {.who = [&run] { return words_of({run.program().pid()}); },
          .status = status,
          .dump = [&snapshots] { return snapshots.want_dump(); },
          .dumped = [&snapshots](uint64_t number) { return snapshots.has_dumped(number); },
          .stop = [&run] { run.stop(); },
          .set_max_overhead = [&run](double share) { run.set_max_overhead(share); },
          .set =
              [&](const RunSetting& setting) {
                return set_in(run, collection, value_change, setting);
              }};
}

// Between bursts: who wants something of the run. `control` may be null.
void serve(double now, BurstParts parts, Snapshots& snapshots, ControlSocket* control,
           profile::Profile& profile) {
  if (control)
    control->serve(now, controlled(now, parts.run, snapshots, parts.request.snapshots.dump_file,
                                   parts.collection, parts.value_change));
  if (parts.run.take_dump_wish()) snapshots.want_dump_or_warn();
  if (snapshots.is_due(now)) {
    parts.own_cpu_before_s = processor_seconds_of(RUSAGE_SELF);
    snapshots.take(now, parts.sink.pipeline(),
                   [&]() -> profile::Profile& { return finish_in_copy(parts, profile); });
  }
  if (snapshots.enough()) parts.run.stop();
}

Collection collection_of_bursts(const BurstModeRequest& request, bool tracing,
                                const collect::SampleWeights& weights,
                                const collect::ConditionChange& value_change) {
  Collection collection = request.collection;
  collection.value_options.change = &value_change;
  collection.sampled = tracing;
  if (request.engine == BurstEngineKind::emulator) collection.weights = &weights;
  return collection;
}

BurstRunOptions options_of_bursts(const BurstModeRequest& request) {
  BurstRunOptions options;
  options.length = request.length;
  options.duration = request.duration;
  options.time = request.time;
  options.prefill = request.prefill && request.engine == BurstEngineKind::translator;
  options.slow_down = kSlowDownRatio;
  options.seed = request.wishes.seed;
  options.follow_exec = request.follow_exec;
  return options;
}

std::vector<std::string> warnings_of(BurstRun& run, const std::string& only, bool translating,
                                     const std::optional<StartWait>& start) {
  std::vector<std::string> warnings = run.warnings();
  if (start) warnings.insert(warnings.begin(), start->warnings().begin(), start->warnings().end());
  warn_if_never_there(only, run.counts(), run.counts().bursts, warnings);
  if (translating) warnings.emplace_back(kExperimental);
  for (std::string& warning : run.engine().warnings()) warnings.push_back(std::move(warning));
  return warnings;
}

// False: sampling is not to begin.
bool wait_for_start(const BurstModeRequest& request, shadow::Program& program,
                    ControlSocket* control, std::optional<StartWait>& start,
                    plan::Wishes& wishes) {
  if (request.start_at.empty()) return true;
  start.emplace(request.start_at, wishes.max_overhead_share, request.follow_exec, wishes.seed);
  const bool begins =
      start->wait(program, request.launch.has_value(), control, request.snapshots.dump_file);
  wishes.max_overhead_share = start->share();
  return begins;
}

}  // namespace

Result<RunResult> run_burst_mode(const BurstModeRequest& request) {
  RunResult result;
  profile::Profile& profile = result.profile;
  profile.run = begin_run("burst", request.command, request.options, request.wishes.seed);
  const int64_t started = std::time(nullptr);
  const bool translating = request.engine == BurstEngineKind::translator;
  profile.run.engine = name_of(request.engine);
  if (translating) SP_TRY(BurstTranslator::check_host(request.collection));

  SP_ASSIGN(const InheritedLimits limits, prepare_to_run());
  block_awaited_signals();
  SP_ASSIGN(std::vector<shadow::Program> programs,
            find_programs(request.launch, request.attach_to, false));
  shadow::Program& program = programs.front();
  profile.run.pid = program.pid().value;
  if (request.launch) limits.give_to(program.pid());  // it has not executed anything yet
  auto control = ControlSocket::open(::getppid(), ::getpid());
  if (!control) detail("no socket for ctl: {}", control.error().message);
  ControlSocket* const listener = control ? &*control : nullptr;
  plan::Wishes wishes = request.wishes;
  std::optional<StartWait> start;
  const bool begins = wait_for_start(request, program, listener, start, wishes);
  if (start) start->fill(profile);
  const std::vector<symbols::PerfMapPlace> generated = perf_maps_of({program.pid()});

  trace::BlockTable table;
  const bool tracing = !translating || request.collection.needs_trace();
  collect::SampleWeights weights;
  collect::ConditionChange value_change;
  Collection collection = collection_of_bursts(request, tracing, weights, value_change);
  collection.look_at_code(table, started);
  collect::Pipeline pipeline(tracing ? make_collectors(collection, table)
                                     : std::vector<std::unique_ptr<collect::Collector>>());
  PipelineSink sink(pipeline, collection.names_threads());
  BurstRunOptions options = options_of_bursts(request);
  std::optional<WantedPart> only;
  if (!request.only.empty()) options.only = &only.emplace(request.only, started);
  Snapshots snapshots(request.snapshots);
  BurstRun* running = nullptr;
  const auto parts = [&]() -> BurstParts {
    return {request, collection, *running, weights, sink, table, generated, started, tracing,
            value_change};
  };
  options.when_over = [&] {
    if (control) control->close();
  };
  options.meanwhile = [&](double now) {
    serve(now, parts(), snapshots, listener, profile);
  };
  options.begins_late = start.has_value();
  BurstRun run(std::move(program), make_engine(request, collection, table, sink), weights, options,
               wishes);
  running = &run;
  const ServesFirst first;
  if (request.launch && !start) run.let_go();
  if (!begins) run.stop();
  run.run();
  profile.run.exit = exit_of(run.program());
  profile.run.until_error = snapshots.enough();
  result.warnings = warnings_of(run, request.only, translating, start);

  finish_parts(parts(), profile);
  run.finish_time(profile);
  if (!run.why_no_time().empty()) detail("no processor time: {}", run.why_no_time());
  name_and_fill(parts(), run.program_cpu_s(), profile);
  snapshots.settle();
  if (const Status sound = profile::check_consistency(profile); !sound)
    result.internal_error = sound.error().message;
  return result;
}

}  // namespace shadowprof::sample
