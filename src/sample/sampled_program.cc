// SPDX-License-Identifier: MIT
#include "sample/sampled_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/printable.h"
#include "base/processor_time.h"
#include "kernel/proc.h"
#include "sample/host.h"

namespace shadowprof::sample {
namespace {

profile::Pauses summarise_pauses(std::vector<double> pauses) {
  if (pauses.empty()) return {};
  std::sort(pauses.begin(), pauses.end());
  const auto quantile = [&](double q) {
    return pauses[static_cast<size_t>(q * static_cast<double>(pauses.size() - 1))];
  };
  return {std::accumulate(pauses.begin(), pauses.end(), 0.0), pauses.back(), quantile(0.5),
          quantile(0.99)};
}

// Where no sample tells how fast the program is it is taken for as fast as many are.
constexpr double kAssumedInstructions_per_s = 3e9;
// Fewer say nothing of that: they begin with what replicas do slowly.
constexpr uint64_t kTellingInstructions = 1'000'000;

// Less is a few ticks of the clock.
constexpr double kTellingTime_s = 0.1;

// Nothing: they do not say it.
std::optional<double> instructions_per_s(const SampledRun& run) {
  if (run.instructions < kTellingInstructions) return std::nullopt;
  if (run.instructions_per_s > 0) return run.instructions_per_s;
  // By the engine's clock it is only known from samples in which nothing was captured.
  if (run.guest_s > 0 || run.slow_down <= 0 || run.engine_cpu_s <= 0) return std::nullopt;
  return static_cast<double>(run.instructions) * run.slow_down / run.engine_cpu_s;
}

// The clock is the program's own; its processor time has that of children that nobody follows.
double unfollowed_cpu_s(const SampledRun& run, const profile::ProcessorTime& time) {
  const double all_s = run.overhead.program_cpu_s;
  const bool are_most =
      !run.follows && time.is_known() && all_s >= kTellingTime_s && time.seconds() < all_s / 2;
  return are_most ? all_s - time.seconds() : 0;
}

// The kernel's time holds none of the program's instructions. What says that the program has
// executed less than was profiled says nothing.
void estimate_total(const SampledRun& run, const profile::ProcessorTime& time,
                    profile::Coverage& coverage) {
  const double user_share = time.seconds() > 0 ? time.user_s / time.seconds() : 1;
  const double own_s = run.part * (run.overhead.program_cpu_s - unfollowed_cpu_s(run, time));
  std::optional<double> told_per_s = instructions_per_s(run);
  if (told_per_s && own_s * user_share * *told_per_s < static_cast<double>(run.instructions))
    told_per_s.reset();
  const double total = own_s * user_share * told_per_s.value_or(kAssumedInstructions_per_s);
  coverage.instructions_total =
      std::max(coverage.instructions_profiled, static_cast<uint64_t>(total));
  coverage.estimated = true;
  coverage.assumed_total = !told_per_s;
}

}  // namespace

Result<std::vector<shadow::Program>> find_programs(
    const std::optional<ptrace::LaunchRequest>& launch, const std::vector<Tid>& attach_to,
    bool follow) {
  const auto children = follow ? shadow::Follow::children : shadow::Follow::no;
  std::vector<shadow::Program> programs;
  if (launch) {
    SP_ASSIGN(const ptrace::Tracee process, ptrace::launch(*launch));
    programs.push_back(shadow::Program::launched(process, children));
  }
  for (Tid process : attach_to) {
    auto program = shadow::Program::attach(process, children);
    if (!program) {
      for (shadow::Program& attached : programs) attached.detach();
      return tl::unexpected(program.error());
    }
    programs.push_back(std::move(*program));
  }
  return programs;
}

bool is_stopped(Tid process) {
  const auto stat = kernel::read_process_stat(process);
  return stat && (stat->state == 'T' || stat->state == 't');
}

std::optional<profile::Exit> exit_of(const shadow::Program& program) {
  const auto& end = program.end();
  if (!end) return std::nullopt;
  const bool killed = end->kind() == ptrace::WaitStatus::Kind::killed;
  return profile::Exit{killed, killed ? end->signal() : end->exit_code()};
}

profile::TimelineRow timeline_row(double at, uint64_t samples, uint64_t instructions, double pause,
                                  double life) {
  const auto microseconds = [](double s) { return static_cast<uint64_t>(1e6 * std::max(0.0, s)); };
  return {microseconds(at), samples, instructions, microseconds(pause), microseconds(life)};
}

void fill_costs(const plan::Ledger& ledger, const plan::Plan& plan, profile::Overhead& overhead) {
  for (size_t i = 0; i < plan::kCauses; i++) {
    const auto cause = static_cast<plan::Cause>(i);
    if (ledger.spent_s(cause) > 0) overhead.by_cause[name_of(cause)] = ledger.spent_s(cause);
  }
  for (size_t i = 0; i < plan::kWhys; i++) {
    const uint64_t count = plan.counts()[i];
    if (count != 0) overhead.steps[name_of(static_cast<plan::Why>(i))] = count;
  }
}

void warn_if_never_there(const std::string& only, const Attempts& attempts, uint64_t samples,
                         std::vector<std::string>& warnings) {
  if (only.empty() || samples != 0) return;
  warnings.push_back(fmt::format("no sample began in {}: {} look{} found the program elsewhere",
                                 printable(only), attempts.elsewhere,
                                 attempts.elsewhere == 1 ? "" : "s"));
}

// Most programs are never stopped by a signal, and most profiles are of the whole program.
void tell_attempts(const Attempts& attempts, profile::Counts& stops) {
  tell_counters(kAttempts, attempts, stops);
  if (attempts.stopped == 0) stops.erase("stopped");
  if (attempts.elsewhere == 0) stops.erase("elsewhere");
}

void fill_sampled(const SampledRun& run, const collect::Pipeline& pipeline,
                  profile::Profile& profile) {
  profile::Overhead& overhead = profile.overhead;
  overhead = run.overhead;
  overhead.pause_s = summarise_pauses(run.pauses);
  overhead.collector_cpu_s = pipeline.cpu_seconds();
  const double own_cpu_s = run.own_cpu_before_s + processor_seconds_of(RUSAGE_SELF);
  overhead.engine_cpu_s = std::max(0.0, own_cpu_s - overhead.collector_cpu_s);
  overhead.unfollowed_cpu_s = unfollowed_cpu_s(run, profile.time);
  overhead.timeline = profile::shortened(std::move(overhead.timeline));
  profile::Coverage& coverage = profile.coverage;
  coverage.samples = run.samples;
  for (const auto& [reason, samples] : run.ended) coverage.ended[reason] = samples;
  estimate_total(run, profile.time, coverage);
  coverage.assumed_speeds = run.assumed_speeds;
}

}  // namespace shadowprof::sample
