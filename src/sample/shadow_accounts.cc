// SPDX-License-Identifier: MIT
//
// What a sample was worth, and what it cost.
#include <algorithm>
#include <utility>

#include "base/code_cells.h"
#include "base/log.h"
#include "base/processor_time.h"
#include "kernel/table.h"
#include "probe/memory_use.h"
#include "sample/host.h"
#include "sample/sampled_program.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {

using shadow::Outcome;

namespace {

// How fast the need for an input log is learned and forgotten, and how much there must be.
constexpr double kLearningShare = 0.3;
constexpr double kNeededShare = 0.5;
// A sample that came so far did not end for want of input too early.
constexpr double kFarEnoughShare = 0.5;
// How often faults are counted that come between samples.
constexpr double kSettleEvery_s = 0.5;
// Steps that follow one another within so long are settled once.
constexpr double kSettleBeforeStep_s = 0.0005;

// ": read: sentence", as far as there is something to say.
std::string describe(const shadow::Ending& ending) {
  const kernel::SyscallRow* row = kernel::find_syscall(ending.syscall_number);
  std::string text = row ? fmt::format(": {}", row->name) : "";
  if (!ending.detail.empty()) text += ": " + ending.detail;
  return text;
}

}  // namespace

// The replica dies: from now on the program copies nothing for it.
void ShadowRun::note_end(Sample& sample) {
  if (sample.has_ended) return;
  sample.has_ended = true;
  const double now = elapsed();
  sample.life.lifetime_s = now - sample.forked_at;
  sample.life.copied_pages = sample.program->end(now, probe::reused_pages());
}

// Before a step is decided on that the plan has waited for, and now and then. Not at each report: a
// program that gets many signals would pay for each of them.
bool ShadowRun::is_to_be_settled() const {
  const double now = elapsed();
  const bool is_before_step = samples_.empty() && now >= waits_until_s_;
  return now >= settled_at_ + (is_before_step ? kSettleBeforeStep_s : kSettleEvery_s);
}

// What samples that are over have left to the programs.
void ShadowRun::settle_accounts() {
  const double now = elapsed();
  settled_at_ = now;
  ledger_.spend(plan::Cause::busy_core, crowding_.charge(take_own_cpu()));
  ledger_.spend(plan::Cause::clock, time_.take_cost());
  ledger_.charge_signals(signals(), prices());
  const auto reused = probe::reused_pages();
  for (const ProgramRef& program : programs_) {
    const double faults = program->settle(now, reused);
    counts_.extra_faults += faults;
    const double cost_s = faults * price_.kept;
    ledger_.spend(plan::Cause::kept_pages, cost_s);
    plan_.kept(cost_s);
  }
}

// That tracer and collectors have used since the last call.
double ShadowRun::take_own_cpu() {
  const double before = std::exchange(own_cpu_s_, processor_seconds_of(RUSAGE_SELF));
  return own_cpu_s_ - before;
}

// Its trace is read: what it was worth, and what it cost.
void ShadowRun::finish(Sample& sample) {
  const double now = elapsed();
  note_end(sample);
  counts_.replicas++;
  add_up(sample);
  tell_of(sample);
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  if (ending.outcome == Outcome::fault) sample.program->copy_all_memory();
  finish_log(sample, ending);
  if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
  // Lengths are for samples that are only run.
  if (!sample.verifies && done.samples == 0) sample.life.guest_s = guest_seconds(sample);
  if (sample.log) sample.life.input_log_s = sample.log->cost();
  sample.life.busy_core_s = crowding_.ended(waiting_of(sample, sample.executor->processor()),
                                            take_own_cpu(), samples_.size());
  if (options_.converge && !sample.verifies) {
    convergence_.sampled(by_region(done.shares));
    plan_.set_patience(convergence_.patience());
  }
  charge_for_caches(sample, sample.life.lifetime_s, sample.life.copied_pages);
  using plan::Cause;
  ledger_.spend(Cause::copied_pages, sample.life.copied_pages * price_.copied);
  ledger_.spend(Cause::busy_core, sample.life.busy_core_s);
  ledger_.spend(Cause::input_log, sample.life.input_log_s);
  plan_.lived(now, sample.life, prices());
}

void ShadowRun::add_up(Sample& sample) {
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  counts_.instructions += done.instructions;
  if (sample.numbers) sample.numbers->end(done);
  counts_.later += done.all_samples() - 1;
  counts_.fragments += done.fragments;
  add_counters(shadow::kReplicaStops, counts_, done);
  counts_.translation_s += done.translation_s;
  counts_.warm_gain += done.warm_gain;
  counts_.guest_s += sample.executor->guest_seconds();
  counts_.engine_cpu_s += sample.executor->processor().used;
  if (!sample.executor->in_our_process()) {
    counts_.replica_cpu_s += sample.executor->processor().used;
  }
  counts_.extra_faults += sample.life.copied_pages;
  for (const auto& [nr, count] : done.by_number) counts_.by_number[nr] += count;
  if (done.samples != 0) counts_.ended[to_string(Outcome::budget)] += done.samples;
  if (sample.verifies) return;
  counts_.timeline.push_back(timeline_row(sample.forked_at, done.all_samples(), done.instructions,
                                          sample.life.pause_s, sample.life.lifetime_s));
  if (done.ended_between) return;
  counts_.ended[to_string(ending.outcome)]++;
  if (ending.syscall_number >= 0) {
    counts_.ended_by_number[static_cast<unsigned>(ending.syscall_number)]++;
  }
}

void ShadowRun::tell_of(const Sample& sample) const {
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  detail(
      "replica {}: {} samples, {} instructions, {} translated, {} misses, {:.1f} ms, ended by {}{}",
      counts_.replicas, done.all_samples(), done.instructions, done.fragments, done.misses,
      1e3 * (elapsed() - sample.forked_at), to_string(ending.outcome), describe(ending));
  detail(
      "  paused {:.0f} us, lived {:.1f} ms, executed {:.2f} of {:.2f} ms, natively {:.2f} ms, "
      "{:.0f} page faults",
      1e6 * sample.life.pause_s, 1e3 * sample.life.lifetime_s, 1e3 * guest_seconds(sample),
      1e3 * sample.length, 1e3 * done.native_s, sample.life.copied_pages);
}

// It has not waited for the program while it waited for us.
plan::Waiting ShadowRun::waiting_of(const Sample& sample, shadow::ProcessorTime time) {
  const double ours = processor_seconds_of(RUSAGE_SELF) - sample.our_cpu_at_fork;
  return {time.used, std::max(0.0, time.waited - ours), sample.executor->counts().stops()};
}

// What it has executed of its program, by its clock.
double ShadowRun::executed_seconds(const Sample& sample) {
  return sample.executor->guest_seconds() + sample.executor->counts().native_s;
}

double ShadowRun::clock_seconds(const Sample& sample) const {
  return sample.budget.seconds > 0 ? sample.executor->guest_seconds() : 0;
}

// By the engine's clock, or by the number of instructions.
double ShadowRun::guest_seconds(const Sample& sample) const {
  if (sample.budget.seconds > 0) return clock_seconds(sample);
  return static_cast<double>(sample.executor->counts().instructions) / kInstructions_per_s;
}

// Logging costs the program two stops for each of its system calls: it is for programs whose
// samples end early without.
bool ShadowRun::wants_log() const {
  if (options_.input_log == InputLogging::automatic) return input_need_ > kNeededShare;
  return options_.input_log == InputLogging::on;
}

void ShadowRun::finish_log(const Sample& sample, const shadow::Ending& ending) {
  bool needed = false;
  if (sample.log) {
    sample.log->close();
    counts_.logged_stops += sample.log->stops();
    counts_.logged_calls += sample.log->taken();
    needed = sample.log->taken() > 0;
    detail("  input log: {} stops, {} answers taken, {:.1f} ms", sample.log->stops(),
           sample.log->taken(), 1e3 * sample.log->cost());
  } else if (ending.outcome == Outcome::input) {
    needed = guest_seconds(sample) < kFarEnoughShare * sample.length;
  }
  input_need_ += kLearningShare * ((needed ? 1 : 0) - input_need_);
}

}  // namespace shadowprof::sample
