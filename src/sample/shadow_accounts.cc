// SPDX-License-Identifier: MIT
//
// What a sample was worth, and what it cost.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kernel/table.h"
#include "sample/host.h"
#include "sample/memory_use.h"
#include "sample/sampled_program.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {

using shadow::Outcome;

namespace {

// How fast the need for an input log is learned and forgotten, and how much there must be.
constexpr double kLearning = 0.3;
constexpr double kNeeded = 0.5;
// A sample that came so far did not end for want of input too early.
constexpr double kFarEnough = 0.5;
// How often faults are counted that come between samples.
constexpr double kSettleEvery = 0.5;

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
  sample.cost.lifetime = now - sample.forked_at;
  sample.cost.faults_while_alive = sample.program->end(now, reused_pages());
}

// What samples that are over have left to the programs.
void ShadowRun::settle_accounts() {
  const double now = elapsed();
  settles_at_ = now + kSettleEvery;
  governor_.disturbed(crowding_.cost_of(take_own_cpu()));
  const auto reused = reused_pages();
  for (const ProgramRef& program : programs_) {
    const double faults = program->settle(now, reused);
    counts_.extra_faults += faults;
    governor_.faulted(faults);
  }
}

// That tracer and collectors have used since the last call.
double ShadowRun::take_own_cpu() {
  const double before = std::exchange(own_cpu_s_, cpu_seconds_of(RUSAGE_SELF));
  return own_cpu_s_ - before;
}

// Its trace is read: what it was worth, and what it cost.
void ShadowRun::finish(Sample& sample) {
  const double now = elapsed();
  note_end(sample);
  add_up(sample);
  tell_of(sample);
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  if (ending.outcome == Outcome::fault) sample.program->copy_all_memory();
  finish_log(sample, ending);
  if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
  // Lengths are for samples that are only run.
  if (!sample.verifies && done.samples == 0) sample.cost.guest_s = guest_seconds(sample);
  if (sample.log) sample.cost.log = sample.log->cost();
  sample.cost.contention = crowding_.ended(for_others(sample, sample.executor->processor()),
                                           take_own_cpu(), done, samples_.size());
  if (options_.converge && !sample.verifies) {
    convergence_.sampled(done.shares);
    governor_.set_patience(convergence_.patience());
  }
  governor_.sampled(now, sample.cost);
  if (later_.is_replaced()) governor_.replace(now);
}

void ShadowRun::add_up(Sample& sample) {
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  counts_.instructions += done.instructions;
  if (sample.numbers) sample.numbers->end(done);
  counts_.later += done.all_samples() - 1;
  counts_.fragments += done.fragments;
  counts_.misses += done.misses;
  counts_.drains += done.drains;
  counts_.system_calls += done.system_calls;
  counts_.private_pages += done.private_pages;
  counts_.translation_s += done.translation_s;
  counts_.guest_s += sample.executor->guest_seconds();
  counts_.engine_cpu_s += sample.executor->processor().used;
  if (!sample.executor->in_our_process()) {
    counts_.replica_cpu_s += sample.executor->processor().used;
  }
  counts_.extra_faults += sample.cost.faults_while_alive;
  for (const auto& [nr, count] : done.by_number) counts_.by_number[nr] += count;
  if (done.samples != 0) counts_.ended[to_string(Outcome::budget)] += done.samples;
  if (sample.verifies) return;
  counts_.timeline.push_back(timeline_row(sample.forked_at, done.all_samples(), done.instructions,
                                          sample.cost.pause, sample.cost.lifetime));
  if (done.ended_between) return;
  counts_.ended[to_string(ending.outcome)]++;
  if (ending.syscall_number >= 0) {
    counts_.ended_by_number[static_cast<unsigned>(ending.syscall_number)]++;
  }
}

void ShadowRun::tell_of(const Sample& sample) const {
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  detail("replica {}: {} samples, {} instructions, {} translated, {} misses, {:.1f} ms, ended by {}{}",
         governor_.samples() + 1, done.all_samples(), done.instructions,
         done.fragments, done.misses, 1e3 * (elapsed() - sample.forked_at),
         to_string(ending.outcome), describe(ending));
  detail(
      "  paused {:.0f} us, lived {:.1f} ms, executed {:.2f} of {:.2f} ms, natively {:.2f} ms, {:.0f} page "
      "faults",
      1e6 * sample.cost.pause, 1e3 * sample.cost.lifetime, 1e3 * guest_seconds(sample),
      1e3 * sample.length, 1e3 * done.native_s, sample.cost.faults_while_alive);
}

// It has not waited for the program while it waited for us.
shadow::ProcessorTime ShadowRun::for_others(const Sample& sample, shadow::ProcessorTime time) {
  const double ours = cpu_seconds_of(RUSAGE_SELF) - sample.our_cpu_at_fork;
  return {time.used, std::max(0.0, time.waited - ours)};
}

// By the engine's clock, or by the number of instructions.
double ShadowRun::guest_seconds(const Sample& sample) const {
  if (sample.budget.seconds > 0) return sample.executor->guest_seconds();
  return static_cast<double>(sample.executor->counts().instructions) / kInstructionsPerSecond;
}

// Logging costs the program two stops for each of its system calls: it is for programs whose
// samples end early without.
bool ShadowRun::wants_log() const {
  if (options_.input_log == InputLogging::automatic) return input_need_ > kNeeded;
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
    needed = guest_seconds(sample) < kFarEnough * sample.length;
  }
  input_need_ += kLearning * ((needed ? 1 : 0) - input_need_);
}

}  // namespace shadowprof::sample
