// SPDX-License-Identifier: MIT
#include "sample/full_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>

#include "base/check.h"
#include "base/elapsed.h"
#include "base/processor_time.h"
#include "base/short_memory.h"
#include "collect/count_tables.h"
#include "collect/pipeline.h"
#include "collect/regions/region_filter.h"
#include "inject/engine.h"
#include "sample/code_history.h"
#include "sample/full_progress.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/pipeline_sink.h"
#include "sample/syscall_counts.h"

namespace shadowprof::sample {
namespace {

// Fragments that are translated with what a program meets for the first time. python3 -c pass:
// 12,500 stops with one, 2,600 with these, for half more time of the translator.
constexpr size_t kLeastAheadInFull = 64;

void fill_overhead(profile::Profile& profile, const inject::EngineCounts& counts,
                   const collect::Pipeline& pipeline) {
  profile::Overhead& overhead = profile.overhead;
  overhead.collector_cpu_s = pipeline.cpu_seconds();
  overhead.engine_cpu_s = processor_seconds_of(RUSAGE_SELF) - overhead.collector_cpu_s;
  overhead.program_cpu_s = processor_seconds_of(RUSAGE_CHILDREN);
  // Who has left goes on unprofiled, and is no child's; a little is what its end took.
  const double others_s = overhead.program_cpu_s - counts.program_cpu_s;
  if (profile.coverage.ended_early.empty() && others_s > overhead.program_cpu_s / 2)
    overhead.unfollowed_cpu_s = others_s;
  overhead.translated_blocks = counts.translation.fragments;
  overhead.translation_s = counts.translation.seconds;
  tell_counters(inject::kEngineStops, counts, overhead.stops);
}

void add_engine_counts(const inject::Engine& engine, const trace::BlockTable& table, bool calls,
                       profile::Profile& profile) {
  collect::add_counts(table, engine.records().executions.runs(),
                      engine.records().executions.pairs(), calls,
                      engine.records().executions.threads().counts(), profile);
  profile.coverage.samples = engine.records().counts.threads;
}

// Runs that end in an indirect branch are counted in pairs with what followed.
std::vector<uint64_t> executions_of_runs(const inject::Engine& engine) {
  std::vector<uint64_t> executions = engine.records().executions.runs();
  for (const trace::PairCount& pair : engine.records().executions.pairs()) {
    if (pair.run.value >= executions.size()) executions.resize(pair.run.value + 1);
    executions[pair.run.value] += pair.count;
  }
  return executions;
}

// Collectors know threads by their ids; rows of a thread that has executed programs become one.
void name_threads(const inject::Engine& engine, bool counting, profile::Profile& profile) {
  if (!counting)
    for (const trace::ThreadCount& thread : engine.records().executions.threads().counts())
      if (thread.thread != Tid())
        profile.threads.push_back({thread.thread.value, thread.process.value, thread.name});
  profile::join_threads_by_id(profile);
}

// What was counted, and of whom, when the program has ended.
void fill_counts(const inject::Engine& engine, const trace::BlockTable& table,
                 const Collection& collection, profile::Profile& profile) {
  const bool counting = collection.counted_by_engine;
  if (counting) add_engine_counts(engine, table, collection.calls, profile);
  name_threads(engine, counting, profile);
  for (const auto& [reason, threads] : engine.records().traces.ended())
    profile.coverage.ended[trace::to_string(reason)] += threads;
  profile.coverage.instructions_total = profile.coverage.instructions_profiled;
}

// Virtual time is counted.
emu::Recording recording_for(const Collection& collection, bool virtual_time) {
  if (!collection.counted_by_engine)
    return virtual_time ? emu::Recording::both : emu::Recording::trace;
  return collection.needs_trace() ? emu::Recording::both : emu::Recording::counts;
}

ptrace::LaunchRequest launch_request(const FullModeRequest& request) {
  using ptrace::TraceOptions;
  ptrace::LaunchRequest launch;
  launch.path = request.path;
  launch.argv = request.argv;
  launch.environment = request.environment;
  launch.signals = request.signals;
  launch.fixed_addresses = launch.fixed_start = request.deterministic;
  launch.told_user = ptrace::ToldUser::fixed;
  launch.processor = request.processor;
  launch.options = TraceOptions::mark_syscall_stops | TraceOptions::follow_fork |
                   TraceOptions::follow_vfork | TraceOptions::follow_clone |
                   TraceOptions::report_exec | TraceOptions::report_vfork_done |
                   TraceOptions::report_exit | TraceOptions::exit_kill;
  return launch;
}

inject::EngineOptions engine_options(const FullModeRequest& request, const Collection& collection,
                                     ptrace::TraceOptions trace) {
  inject::EngineOptions options;
  options.follow = request.follow;
  options.follow_exec = request.follow_exec;
  options.trace = trace;
  options.fixed_machine = request.deterministic;
  options.processor = request.processor;
  if (request.deterministic && !options.processor) options.processor = &machine::CpuModel::host();
  options.virtual_time = request.deterministic && !request.real_clock;
  options.schedule_seed = request.schedule_seed;
  options.space.recording = recording_for(collection, options.virtual_time);
  options.space.least_ahead = kLeastAheadInFull;
  options.space.translator.through_jumps = !collection.needs_order();
  options.space.translator.stop_at_cpuid = options.processor != nullptr;
  options.space.translator.stop_at_rdtsc = options.virtual_time;
  options.plan = collection.plan();
  options.seen_enough = collection.value_options.seen_enough;
  options.capture_one_in = collection.value_options.condition.weight();
  options.capture_window_us = collection.value_options.condition.window_us;
  if (collection.times_in_bouts) {
    options.plan = collection.plan_without_times();
    options.space.in_bouts = collection.plan_of_bouts();
    options.space.share_of_bouts = collection.latency_condition->share();
  }
  return options;
}

// Counters tell the same whatever is translated. In a trace it decides, among others, which
// arguments a function is seen to have.
CacheFolder code_folder_for(const inject::EngineOptions& options) {
  const bool only_counts = options.space.recording == emu::Recording::counts;
  return only_counts ? CacheFolder::of_user().inside("code") : CacheFolder();
}

// What must be the same for code that was executed once to be executed again.
std::string conditions_of(const emu::TranslatorOptions& options) {
  return fmt::format("through jumps {}\n", options.through_jumps);
}

// What the process was one after the other, and who went on without us.
void fill_course(const inject::Engine& engine, std::chrono::steady_clock::time_point start,
                 profile::Profile& profile) {
  const auto since_start = [&](std::chrono::steady_clock::time_point at) {
    return std::max(0.0, std::chrono::duration<double>(at - start).count());
  };
  for (const inject::Executed& program : engine.records().notes.executed())
    note_image(profile.run, since_start(program.at), program.command);
  for (const inject::Leaving& leaving : engine.records().notes.leavings())
    profile.coverage.ended_early.push_back(
        {since_start(leaving.at), leaving.instructions, leaving.why});
  profile.coverage.estimated = engine.records().notes.left() != 0;
  if (engine.records().notes.left() != 0)
    profile.coverage.events["processes_left"] = engine.records().notes.left();
}

// If not asked for otherwise. To time a load takes as long as a hundred instructions, and a program
// that is so much slower loses its lines to others before it comes back to them.
constexpr uint64_t kLoadsOneIn = 16;

Collection collection_of(const FullModeRequest& request) {
  Collection collection = request.collection;
  collection.regions = request.within.has_value();
  collection.moments = collection.hazards && !request.deterministic;
  collection.counted_by_engine =
      (collection.edges || collection.calls || collection.needs_trace()) &&
      !collection.exact_inclusive && !collection.regions;
  collection.so_far = std::make_shared<std::atomic<uint64_t>>(0);
  const bool probes_times = std::ranges::any_of(collection.probes, [](const auto& probe) {
    return probe.uses_fact(collect::ProbeFact::latency);
  });
  if (!collection.latency_condition && collection.counted_by_engine && !probes_times)
    collection.latency_condition = {.burst = 1, .every = kLoadsOneIn};
  return collection;
}

// The part of the program that is profiled alone.
struct Within {
  Within(const trace::BlockTable& table, const RegionRequest& request, int64_t started)
      : code(table, request, started) {}

  RegionCode code;
  collect::RegionCounts counts;
};

// What is told of it, and not of the rest. Returns how often each run was executed within.
std::vector<uint64_t> take_region(const RegionRequest& request, Within& within,
                                  const inject::Engine& engine, RunResult& result) {
  profile::Region& region = result.profile.run.region.emplace();
  region.within = request.within;
  region.from = request.from;
  region.to = request.to;
  region.functions = within.code.functions();
  region.entries = within.counts.entries;
  region.program_instructions = within.counts.program_instructions;
  result.profile.coverage.samples = engine.records().counts.threads;
  result.system_calls_within = within.counts.system_calls;
  return std::move(within.counts.executions);
}

// The counts are exact all the same.
void warn_of_waits(const inject::Engine& engine, std::vector<std::string>& warnings) {
  if (engine.has_lost_patience()) {
    warnings.push_back(
        "a thread slept in the kernel for more than 2 s, as for a slow disk, and others went on: "
        "the order in which threads run may be another one in the next run");
  }
  const std::vector<std::string> calls = engine.waits_for_others();
  if (calls.empty()) return;
  warnings.push_back(fmt::format(
      "threads waited for what comes from outside, at its own time, in {}: the order in "
      "which threads run may be another one in the next run",
      fmt::join(calls, ", ")));
}

// Values are captured in windows of time if nothing else is, and if it is not all of them.
void choose_windows(trace::RunMailbox& seen_enough, Collection& collection) {
  const bool in_windows = collection.counted_by_engine && collection.captures_only_values() &&
                          !collection.value_options.condition.all();
  if (in_windows) collection.value_options.seen_enough = &seen_enough;
  collection.times_in_bouts = collection.may_time_in_bouts() && collection.latency_condition &&
                              !collection.latency_condition->all();
}

using Collectors = std::vector<std::unique_ptr<collect::Collector>>;
Collectors collectors_of(const Collection& collection, const trace::BlockTable& table,
                         const FullModeRequest& request, std::optional<Within>& within) {
  Collectors collectors;
  if (collection.needs_trace()) collectors = make_collectors(collection, table);
  if (!within) return collectors;
  const collect::RegionFilterOptions options{request.within->kind(), &within->code.entries()};
  Collectors filter;
  filter.push_back(
      collect::make_region_filter(table, options, std::move(collectors), within->counts));
  return filter;
}

// Which new blocks are entries, before a chunk has them.
std::function<void()> look_for_entries(const FullModeRequest& request,
                                       std::optional<Within>& within) {
  if (!within || request.within->kind() == collect::RegionKind::marks) return {};
  return [&within] { within->code.look(); };
}

// A deterministic program's process ids are its own where that is permitted.
Result<ptrace::Tracee> start_program(const FullModeRequest& request,
                                     const ptrace::LaunchRequest& launch, ptrace::IdSpace& ids,
                                     profile::Run& run) {
  auto program = ptrace::launch(launch, request.deterministic ? &ids : nullptr);
  if (program) run.pid = program->tid().value;
  if (request.deterministic) run.options["ids"] = ids.is_own() ? "own" : "real";
  return program;
}

}  // namespace

Result<RunResult> run_full_mode(const FullModeRequest& request) {
  RunResult result;
  profile::Profile& profile = result.profile;
  profile.run = begin_run("full", request.argv, request.options, request.seed);
  const int64_t started = std::time(nullptr);
  const auto start = std::chrono::steady_clock::now();

  Collection collection = collection_of(request);
  SP_ASSIGN(const InheritedLimits limits, prepare_to_run());
  const ptrace::LaunchRequest launch = launch_request(request);
  ptrace::IdSpace ids;
  SP_ASSIGN(const ptrace::Tracee program, start_program(request, launch, ids, profile.run));
  limits.give_to(program.tid());  // it has not executed an instruction yet
  const std::vector<symbols::PerfMapPlace> generated = perf_maps_of({program.tid()});
  // From here on no return without the program's end: it cannot go on without us.
  trace::BlockTable table;
  trace::RunMailbox seen_enough;
  std::vector<uint64_t> executions;
  const bool counting = collection.counted_by_engine;
  if (counting) collection.executions = &executions;
  collection.look_at_code(table, started);
  choose_windows(seen_enough, collection);
  std::optional<Within> within;
  if (request.within) within.emplace(table, *request.within, started);
  collect::Pipeline pipeline(collectors_of(collection, table, request, within));
  PipelineSink sink(pipeline, collection.names_threads(), look_for_entries(request, within));
  inject::EngineOptions options = engine_options(request, collection, launch.options);
  CodeHistory history(code_folder_for(options), request.path,
                      conditions_of(options.space.translator));
  options.space.order = &history.order();
  inject::Engine engine(table, sink, options);
  set_check_context([&] { return engine.guests().describe(); });
  if (const Status adopted = engine.adopt(program); !adopted) {
    ::kill(program.tid().value, SIGKILL);
    return tl::unexpected(adopted.error());
  }
  FullProgress progress(
      [&] { return counting ? engine.spaces().instructions_so_far() : collection.so_far->load(); });
  const auto forward = [&] {
    forward_signals_to(program.tid());
    if (out_of_processor_time()) engine.leave_all(kOutOfProcessorTime);
    if (memory_is_short()) engine.leave_all(kMemoryIsShort);
    progress.look();
  };
  SP_ASSIGN(const inject::ProgramEnd end, engine.run(forward));
  progress.ended();
  set_check_context(nullptr);
  profile.run.duration_s = seconds_since(start);
  profile.run.exit = profile::Exit{end.signalled, end.value};
  result.warnings = engine.records().notes.unsupported();

  executions = executions_of_runs(engine);
  history.keep(table, executions, engine.records().executions.pairs());
  pipeline.finish(profile);
  if (within) executions = take_region(*request.within, *within, engine, result);
  if (request.count_operations) result.operations = collect::count_operations(table, executions);
  fill_counts(engine, table, collection, profile);
  fill_course(engine, start, profile);
  profile.confidence.exact = result.warnings.empty() && engine.records().notes.left() == 0;
  warn_of_waits(engine, result.warnings);
  if (!within) fill_syscalls(engine.records().calls, {}, profile.syscalls);
  const auto inclusive = counting ? Inclusive::estimate : Inclusive::measured;
  name_functions(profile, table,
                 {request.top, started, inclusive, collection.hide_values, generated});
  fill_overhead(profile, engine.records().counts, pipeline);
  if (const Status sound = profile::check_consistency(profile); !sound)
    result.internal_error = sound.error().message;
  return result;
}

}  // namespace shadowprof::sample
