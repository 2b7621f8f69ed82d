// SPDX-License-Identifier: MIT
#include "sample/shadow_mode.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "base/limits.h"
#include "base/log.h"
#include "collect/pipeline.h"
#include "sample/host.h"
#include "sample/name_functions.h"
#include "sample/neighbour.h"
#include "sample/pipeline_sink.h"
#include "sample/shadow_run.h"
#include "sample/syscall_counts.h"

namespace shadowprof::sample {
namespace {

constexpr int kTracerNice = -10;
// How much slower a replica executes than the program itself; the geometric mean of the programs
// in bench/README.md with a trace that nobody reads. Only for the estimate of how much there was to
// profile.
constexpr double kSlowDown = 1.8;

Result<shadow::Program> find_program(const ShadowModeRequest& request) {
  if (!request.launch) return shadow::Program::attach(request.attach_to);
  SP_ASSIGN(const ptrace::Tracee process, ptrace::launch(*request.launch));
  return shadow::Program::launched(process);
}

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return 1e-3 * static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now() - start)
                                        .count());
}

// First writes to pages that a child has, too, and to pages that it had.
FaultPrice calibrate_faults() {
  constexpr size_t kPages = 512;
  FaultPrice price;
  void* memory = ::mmap(nullptr, kPages * limits::kPageBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return price;
  ::madvise(memory, kPages * limits::kPageBytes, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile char*>(memory);
  const auto write_all = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kPages; i++) bytes[i * limits::kPageBytes] = 1;
    return 1e-6 * microseconds_since(start) / kPages;
  };
  write_all();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
    ::_exit(0);
  }
  if (child > 0) {
    const double copied = write_all();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const pid_t short_lived = ::fork();
    if (short_lived == 0) ::_exit(0);
    if (short_lived > 0) ::waitpid(short_lived, nullptr, 0);
    price = {copied, std::min(copied, write_all())};
  }
  ::munmap(memory, kPages * limits::kPageBytes);
  return price;
}

void fill_overhead(const ShadowRun& sampled, const collect::Pipeline& pipeline, double max_overhead,
                   profile::Overhead& overhead) {
  const ShadowRunCounts& counts = sampled.counts();
  overhead.budget_share = max_overhead;
  overhead.estimated_share = sampled.governor().estimated_share(sampled.sampling_s());
  overhead.forks = counts.forks;
  overhead.extra_faults = static_cast<uint64_t>(counts.extra_faults);
  std::vector<double> pauses = counts.pauses;
  std::sort(pauses.begin(), pauses.end());
  if (!pauses.empty()) {
    const auto quantile = [&](double q) {
      return pauses[static_cast<size_t>(q * static_cast<double>(pauses.size() - 1))];
    };
    overhead.pause_s = {sampled.governor().pause_total(), pauses.back(), quantile(0.5),
                        quantile(0.99)};
  }
  overhead.collector_cpu_s = pipeline.cpu_seconds();
  overhead.engine_cpu_s = cpu_seconds_of(RUSAGE_SELF) - overhead.collector_cpu_s;
  overhead.program_cpu_s = sampled.program_cpu_s();
  overhead.translated_blocks = counts.fragments;
  overhead.translation_s = counts.translation_s;
  overhead.stops = {{"miss", counts.misses},
                    {"drain", counts.drains},
                    {"syscall", counts.system_calls},
                    {"shared_page", counts.private_pages},
                    {"sleeping", counts.sleeping},
                    {"refused", counts.refused},
                    {"signal", sampled.program().signals()}};
}

// From the program's processor time and the speed of its replicas.
uint64_t estimate_total(const ShadowRun& sampled) {
  const ShadowRunCounts& counts = sampled.counts();
  if (counts.replica_cpu_s <= 0) return 0;
  const double rate = kSlowDown * static_cast<double>(counts.instructions) / counts.replica_cpu_s;
  return static_cast<uint64_t>(sampled.program_cpu_s() * rate);
}

std::optional<profile::Exit> exit_of(const shadow::Program& program) {
  const auto& end = program.end();
  if (!end) return std::nullopt;
  const bool killed = end->kind() == ptrace::WaitStatus::Kind::killed;
  return profile::Exit{killed, killed ? end->signal() : end->exit_code()};
}

}  // namespace

Result<RunResult> run_shadow_mode(const ShadowModeRequest& request) {
  RunResult result;
  profile::Profile& profile = result.profile;
  profile.run = begin_run("shadow", request.command, request.options, request.governor.seed);
  const int64_t started = std::time(nullptr);

  SP_ASSIGN(const Calibration calibration, calibrate_for(request.collection));
  const FaultPrice price = calibrate_faults();
  const double neighbour = neighbour_cost();
  detail("a page copied costs {:.2f} us, kept {:.2f} us; a busy neighbour {:.1f} %",
         1e6 * price.copied, 1e6 * price.kept, 100 * neighbour);
  block_awaited_signals();
  SP_ASSIGN(shadow::Program program, find_program(request));
  profile.run.pid = program.pid().value;

  trace::BlockTable table;
  collect::Pipeline pipeline(make_collectors(request.collection, table, calibration));
  PipelineSink sink(pipeline);
  ShadowRunOptions options;
  options.sample_size = request.sample_size;
  options.max_shadows = request.max_shadows;
  options.duration = request.duration;
  options.plan = request.collection.plan();
  options.neighbour_cost = neighbour;
  ShadowRun sampled(table, sink, std::move(program), options, request.governor, price);
  // While the program is stopped everything waits for this thread. Where that is not permitted, it
  // waits its turn.
  (void)::setpriority(PRIO_PROCESS, 0, kTracerNice);
  if (request.launch) sampled.let_go();
  sampled.run();
  profile.run.duration_s = sampled.sampling_s();
  profile.run.exit = exit_of(sampled.program());
  result.warnings = sampled.warnings();

  pipeline.finish(profile);
  profile.coverage.samples = sampled.counts().forks;
  for (const auto& [reason, samples] : sampled.counts().ended)
    profile.coverage.ended[reason] = samples;
  profile.coverage.instructions_total =
      std::max(profile.coverage.instructions_profiled, estimate_total(sampled));
  profile.coverage.estimated = true;
  fill_syscalls(sampled.counts().by_number, sampled.counts().ended_by_number, profile.syscalls);
  name_functions(profile, request.top, started, Inclusive::measured);
  fill_overhead(sampled, pipeline, request.governor.max_overhead, profile.overhead);
  if (const Status sound = profile::check_consistency(profile); !sound)
    result.internal_error = sound.error().message;
  return result;
}

}  // namespace shadowprof::sample
