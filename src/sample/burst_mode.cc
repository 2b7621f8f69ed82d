// SPDX-License-Identifier: MIT
#include "sample/burst_mode.h"

#include <ctime>

#include "base/log.h"
#include "collect/pipeline.h"
#include "sample/burst_emulator.h"
#include "sample/burst_run.h"
#include "sample/burst_step.h"
#include "sample/burst_translator.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/pipeline_sink.h"
#include "sample/sampled_program.h"
#include "sample/syscall_counts.h"

namespace shadowprof::sample {
namespace {

// How much slower a thread runs in the code cache, without its stops: geometric means of full
// mode's programs in bench/full_mode.md (engine; counting).
constexpr double kSlowDownRatio = 1.9;
constexpr const char* kExperimental =
    "bursts in the code cache are experimental: see docs/burst-mode.md, known problem";

SampledRun describe(BurstRun& run, double max_overhead, uint64_t instructions) {
  const BurstRunCounts& counts = run.counts();
  const BurstTotals totals = run.engine().totals();
  SampledRun done;
  profile::Overhead& overhead = done.overhead;
  overhead.budget_share = max_overhead;
  overhead.estimated_share = run.ledger().spent_share(run.sampling_s());
  fill_costs(run.ledger(), run.plan(), overhead);
  overhead.program_cpu_s = run.program_cpu_s();
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

}  // namespace

Result<RunResult> run_burst_mode(const BurstModeRequest& request) {
  RunResult result;
  profile::Profile& profile = result.profile;
  profile.run = begin_run("burst", request.command, request.options, request.wishes.seed);
  const int64_t started = std::time(nullptr);
  const bool translating = request.engine == BurstEngineKind::translator;
  profile.run.engine = name_of(request.engine);

  SP_ASSIGN(const InheritedLimits limits, InheritedLimits::raise());
  block_awaited_signals();
  SP_ASSIGN(std::vector<shadow::Program> programs,
            find_programs(request.launch, request.attach_to, false));
  shadow::Program& program = programs.front();
  profile.run.pid = program.pid().value;
  if (request.launch) limits.give_to(program.pid());  // it has not executed anything yet
  const std::vector<symbols::PerfMapPlace> generated = perf_maps_of({program.pid()});

  trace::BlockTable table;
  const bool tracing = !translating || request.collection.needs_trace();
  Collection collection = request.collection;
  collection.find_probed_code(table, started);
  collect::SampleWeights weights;
  collection.sampled = tracing;
  if (request.engine == BurstEngineKind::emulator) collection.weights = &weights;
  collect::Pipeline pipeline(tracing ? make_collectors(collection, table)
                                     : std::vector<std::unique_ptr<collect::Collector>>());
  PipelineSink sink(pipeline);
  BurstRunOptions options;
  options.length = request.length;
  options.duration = request.duration;
  options.time = request.time;
  options.prefill = request.prefill && translating;
  options.slow_down = kSlowDownRatio;
  options.seed = request.wishes.seed;
  options.follow_exec = request.follow_exec;
  BurstRun run(std::move(program), make_engine(request, collection, table, sink), weights, options,
               request.wishes);
  serve_first();
  if (request.launch) run.let_go();
  run.run();
  profile.run.duration_s = run.sampling_s();
  profile.run.exit = exit_of(run.program());
  result.warnings = run.warnings();
  if (translating) result.warnings.emplace_back(kExperimental);
  for (std::string& warning : run.engine().warnings())
    result.warnings.push_back(std::move(warning));

  weights.conclude();
  if (collection.weights) tell_of_weights("bursts", weights.replicas());
  pipeline.finish(profile);
  run.engine().finish(profile);
  fill_syscalls(run.engine().totals().by_number, {}, profile.syscalls);
  run.finish_time(profile);
  if (!run.why_no_time().empty()) detail("no processor time: {}", run.why_no_time());
  SampledRun done =
      describe(run, request.wishes.max_overhead_share, profile.coverage.instructions_profiled);
  done.assumed_speeds = weights.assume_speeds();
  fill_sampled(done, pipeline, profile);
  name_functions(profile, table, request.top, started,
                 tracing ? Inclusive::measured : Inclusive::estimate,
                 generated);
  run.watch().fill(profile);
  if (const Status sound = profile::check_consistency(profile); !sound)
    result.internal_error = sound.error().message;
  return result;
}

}  // namespace shadowprof::sample
