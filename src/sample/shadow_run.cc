// SPDX-License-Identifier: MIT
//
// The event loop: whose turn it is. shadow_samples.cc takes the samples.
#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "base/processor_time.h"
#include "kernel/proc.h"
#include "probe/memory_use.h"
#include "probe/timed_code.h"
#include "sample/host.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {

using ptrace::WaitOutcome;
using shadow::Outcome;

namespace {

// A replica whose present sample has taken so long is stuck in something that we do not foresee, or
// the machine has no time for it.
constexpr double kLongestSample_s = 4.0;
constexpr double kLongestWait_s = 1.0;
// How long a replica lives before it is asked whether it has a core.
constexpr double kIdlePatience_s = 0.1;
// At 5 GB a second, which is as fast as memory can be written, 10 MB more than allowed are taken.
constexpr double kPollForMemory_s = 0.002;
// What replicas cost, and whether they have a core. In so long a program copies 2,500 pages.
constexpr double kCheck_s = 0.005;
// One that has lived for so long has cost what it costs, but for what its program does anew.
constexpr double kOld_s = 0.25;
constexpr double kCheckOld_s = 0.01;
constexpr double kLongestFill_s = 0.3;
// Whoever wants us to end is heard even by a program that always has something to report.
constexpr unsigned kReportsInARow = 1000;
constexpr double kShortestRest_s = 1e-6;

}  // namespace

ShadowRun::ShadowRun(trace::BlockTable& table, trace::TraceSink& sink,
                     collect::SampleWeights& weights, Guests guests, ShadowRunOptions options,
                     const plan::Wishes& wishes, const machine::FaultPrice& price)
    : time_(options.time, wishes.max_overhead_share, wishes.seed, access()),
      table_(table),
      sink_(sink),
      weights_(weights),
      newborn_(std::move(guests.newborn)),
      options_(options),
      plan_(wishes),
      ledger_(wishes.max_overhead_share, guests.budget_from_s.value_or(wishes.delay_s)),
      price_(price),
      random_(wishes.seed),
      crowding_(options.max_shadows, options.busy_core.share),
      delay_(wishes.delay_s) {
  SP_CHECK(!guests.programs.empty(), "there is nothing to sample");
  if (options_.plan.times_loads() || options_.space.in_bouts)
    timed_load_s_ = probe::seconds_of_timed_load();
  for (SampledProcess::Handed& guest : guests.programs) {
    programs_.push_back(
        std::make_shared<SampledProcess>(std::move(guest.program), SampledProcess::Space(), 0.0));
    programs_.back()->begin_only_in(options_.only);
    programs_.back()->program().leave_signalled(true);
    for (Tid zombie : guest.zombies) programs_.back()->died(zombie);
    past_signals_ -= programs_.back()->program().signals();  // those before this run
  }
  first_ = programs_.front();
  // One that has ended is a child that was waited for.
  if (options_.begins_late)
    cpu_before_s_ =
        processor_seconds_of(first().pid()).value_or(processor_seconds_of(RUSAGE_CHILDREN));
  for (const ProgramRef& program : programs_) time_.begin(program->program().pid(), elapsed());
}

ShadowRun::~ShadowRun() = default;

void ShadowRun::let_go() {
  (void)ptrace::Tracee(first().pid()).cont_if_alive();
}

// How sure the profile is shows at its end only; until then, whether windows of it are alike.
void ShadowRun::tell_progress() {
  progress_.set(fmt::format("{} samples, {:.2f} % overhead, {} of {} windows like the one before",
                            counts_.forks + counts_.later + counts_.bursts,
                            100 * ledger_.spent_share(elapsed()), convergence_.agreeing(),
                            convergence_.windows()));
}

void ShadowRun::run() {
  try {
    run_to_end();
  } catch (const std::bad_alloc&) {
    end_replicas();
    for (const ProgramRef& program : programs_) program->end_lost_replicas();
    leave_programs();
    throw;
  }
}

void ShadowRun::run_to_end() {
  (void)take_own_cpu();
  for (const ProgramRef& program : std::vector<ProgramRef>(programs_))
    if (!program->program().alive()) forget(program);
  while (!programs_.empty()) {
    if (progress_.is_due()) tell_progress();
    watch_.look(first());
    for (unsigned reports = 0; reports < kReportsInARow && handle_reports(); reports++) {
    }
    look_after_replicas();
    for (const ProgramRef& program : programs_) note_executed(program);
    if (!options_.follow_exec) leave_executed();
    if (programs_.empty() || is_over()) break;
    note_prices();
    time_.look(elapsed());
    if (options_.meanwhile) options_.meanwhile(elapsed());
    if (goes_on_) break;
    if (is_to_be_settled()) settle_accounts();
    if (elapsed() >= looks_at_busy_core_s_ && all_rest()) look_at_busy_core();
    if (may_translate_first() && fill_ahead()) continue;
    carry_out(plan_.next(situation(), ledger_, prices()));
    charge_pauses_in_vain();
  }
  time_.end(elapsed());
  end_replicas();
  goes_on_ = goes_on_ && !programs_.empty() && !is_over();
  if (programs_.empty() && !first_is_left_) {
    have_ended_ = true;
    sampling_s_ = elapsed();
    return;
  }
  if (!programs_.empty()) settle_accounts();
  if (goes_on_) {
    sampling_s_ = elapsed();
    return;
  }
  leave_programs();
  sampling_s_ = elapsed();
  if (options_.when_over) options_.when_over();
  if (first().is_ours() && !watch_.interrupted()) watch_.wait_for_end(first_->program());
}

void ShadowRun::set_max_overhead(double share) {
  ledger_.set_share(share, elapsed());
  plan_.set_max_overhead(share);
  time_.set_max_overhead(share);
  options_.most_log_s = most_log_s(share);
  note_setting("max-overhead", fmt::format("{:.4g}%", 100 * share));
}

// Where samples are asked for one by one, replicas do not give several.
void ShadowRun::set_frequency(double hz) {
  plan_.set_frequency(hz);
  options_.later_samples = hz == 0 && options_.only == nullptr;
}

void ShadowRun::set_shares(const shadow::CaptureShares& shares) {
  options_.space.shares = shares;
  for (const ProgramRef& program : programs_) program->set_shares(shares);
}

std::vector<Tid> ShadowRun::pids() const {
  std::vector<Tid> all;
  for (const ProgramRef& program : programs_) all.push_back(program->program().pid());
  return all;
}

Guests ShadowRun::hand_over() {
  SP_CHECK(goes_on_, "programs that have been left cannot be handed over");
  Guests guests;
  // The stretch that follows begins now.
  guests.max_overhead_share = ledger_.share();
  guests.budget_from_s = ledger_.pays_at_s(0) - elapsed();
  for (const ProgramRef& program : programs_) guests.programs.push_back(program->hand_over());
  guests.newborn = std::move(newborn_);
  return guests;
}

void tell_of_price(const machine::FaultPrice& price) {
  detail("a page copied costs {:.2f} us, kept {:.2f} us, mapped {:.2f} us, a stop {:.2f} us",
         1e6 * price.copied, 1e6 * price.kept, 1e6 * price.mapped, 1e6 * price.stopped);
}

void ShadowRun::note_prices() {
  const auto news = options_.prices ? options_.prices->news_of_faults() : std::nullopt;
  if (!news) return;
  price_ = *news;
  tell_of_price(price_);
}

bool ShadowRun::is_over() const {
  return watch_.must_stop() || (options_.duration > 0 && elapsed() >= options_.duration);
}

// What is known already is translated before the first sample, if that does not take long.
bool ShadowRun::may_translate_first() const {
  return options_.prefill && counts_.moments == 0 && !interprets_ && core_is_idle_ &&
         elapsed() < delay_ + kLongestFill_s;
}

void ShadowRun::carry_out(const plan::Step& step) {
  tell_of(step);
  switch (step.what) {
    case plan::What::fork:
      return fork(step);
    case plan::What::burst:
      return burst(step);
    case plan::What::peek:
      return look_at_program();
    case plan::What::go_on:
    case plan::What::rest:
    case plan::What::end:
      return proceed(*idle_sample(), step);
    case plan::What::wait:
      if (options_.prefill && samples_.empty() && !interprets_ && fill_ahead()) return;
      waits_until_s_ = step.at_s;
      return wait_until(std::min(next_event(), step.at_s));
  }
}

// The replica is idle.
void ShadowRun::proceed(Sample& sample, const plan::Step& step) {
  const double now = elapsed();
  if (step.what == plan::What::end) return sample.executor->request_end(Outcome::budget);
  if (step.what == plan::What::rest) {
    sample.sample_began = step.at_s;
    return sample.executor->proceed({.rest_s = std::max(step.at_s - now, kShortestRest_s)});
  }
  sample.executed_before_s = executed_seconds(sample);
  sample.numbers->go_on(sample.executed_before_s + step.native_s, sample.executor->counts());
  sample.sample_began = now + step.native_s;
  sample.went_on_age = now - sample.forked_at;
  sample.has_worked = true;
  sample.executor->proceed({.native_s = step.native_s,
                            .warms_up = step.warms_up,
                            .seconds = step.length_s,
                            .number = sample.numbers->number()});
}

// Each reason once between two forks.
void ShadowRun::tell_of(const plan::Step& step) {
  if (step.what == plan::What::fork) told_.clear();
  if (!told_.insert(step.why).second || step.what == plan::What::wait) return;
  detail("{} (at {:.3f} s, {:.2f} % spent)", sentence_of(step.why), elapsed(),
         100 * ledger_.spent_share(elapsed()));
}

double ShadowRun::next_event() const {
  double next = std::min(elapsed() + kLongestWait_s, std::max(elapsed(), time_.next()));
  if (options_.duration > 0) next = std::min(next, options_.duration);
  if (options_.wakes_at_s > elapsed()) next = std::min(next, options_.wakes_at_s);
  if (options_.max_memory != 0 && !samples_.empty()) {
    next = std::min(next, elapsed() + kPollForMemory_s);
  }
  for (const Sample& sample : samples_) {
    next = std::min(next, elapsed() + sample.executor->next_idle());
    next = std::min(next, sample.began() + kLongestSample_s);
    if (crowding_.at_idle_priority()) next = std::min(next, elapsed() + kIdlePatience_s);
    if (sample.budget.goes_on && !sample.executor->rests()) next = std::min(next, checks_at_);
  }
  return next;
}

// None runs, as there is none or as it rests.
bool ShadowRun::all_rest() const {
  return std::ranges::all_of(samples_, [](const Sample& sample) {
    return sample.executor->rests() || sample.executor->is_idle();
  });
}

void ShadowRun::wait_until(double moment) {
  watch_.wait_until(moment, first());
  busy_since_ = elapsed();
}

bool ShadowRun::handle_reports() {
  const WaitOutcome outcome = ptrace::wait_any(ptrace::WaitMode::poll);
  if (outcome.kind == WaitOutcome::Kind::no_children) forget_lost();
  if (!outcome.has_status()) return false;
  handle(outcome);
  return true;
}

ProgramAccess ShadowRun::access() {
  const auto find = [this](Tid process) -> shadow::Program* {
    for (const ProgramRef& program : programs_) {
      if (program->program().pid() == process) return &program->program();
    }
    return nullptr;
  };
  const auto serve = [this](Tid thread) {
    const WaitOutcome outcome = ptrace::wait_for(thread, ptrace::WaitMode::poll);
    if (outcome.has_status()) handle(outcome);
  };
  return {find, serve};
}

// Nobody is traced any more. What cannot be traced again is no business of ours.
void ShadowRun::forget_lost() {
  for (const ProgramRef& program : std::vector<ProgramRef>(programs_)) {
    if (!program->program().follow_unseen_exec()) forget(program);
  }
}

void ShadowRun::note_executed(const ProgramRef& program) {
  if (!program->has_executed()) return;
  if (options_.only != nullptr) options_.only->forget(program->program().pid());
  if (program == first_) watch_.note_exec(program->program());
  if (is_to_be_left(*program)) watch_.note_left(program->program());
}

void ShadowRun::handle(const WaitOutcome& outcome) {
  for (Sample& sample : samples_) {
    if (sample.executor->tid() == outcome.tid) return sample.executor->on_stop(outcome.status);
  }
  for (const ProgramRef& program : programs_) {
    if (program->program().owns(outcome.tid)) return handle_program(ProgramRef(program), outcome);
  }
  if (outcome.status.is_stop()) return handle_stranger(outcome);
  // Untraced, one that we launched is still our child.
  if (first_is_left_ && outcome.tid == first().pid())
    first_->program().on_stop(outcome.tid, outcome.status);
}

void ShadowRun::handle_program(const ProgramRef& program, const WaitOutcome& outcome) {
  const double now = elapsed();
  program->program().on_stop(outcome.tid, outcome.status, now - busy_since_);
  note_executed(program);
  busy_since_ = now;
  for (Tid child : program->program().take_children()) {
    const auto known = [&](const ProgramRef& p) { return p->program().pid() == child; };
    left_.erase(child);  // another one had that number
    if (std::none_of(programs_.begin(), programs_.end(), known)) newborn_.insert(child);
  }
  if (!program->program().alive()) forget(program);
}

void ShadowRun::forget(const ProgramRef& program) {
  program->ended(elapsed());
  time_.forget(program->program().pid());
  past_cpu_s_ += program->cpu_s(elapsed());
  past_signals_ += program->program().signals();
  if (options_.only != nullptr) options_.only->forget(program->program().pid());
  std::erase(programs_, program);
}

// Those that have executed another program, when their replicas have ended.
void ShadowRun::leave_executed() {
  std::vector<ProgramRef> executed;
  for (const ProgramRef& program : programs_) {
    if (is_to_be_left(*program)) executed.push_back(program);
  }
  for (const ProgramRef& program : executed) {
    bool has_replicas = false;
    for (Sample& sample : samples_) {
      if (sample.program != program) continue;
      sample.executor->request_end(Outcome::stopped);
      has_replicas = true;
    }
    if (has_replicas) continue;
    leave(program);
    left_.insert(program->program().pid());
    if (program == first_) first_is_left_ = true;
    forget(program);
  }
}

// A process that was just born, a thread that we began to trace as it ended, or one of a program
// that was left.
void ShadowRun::handle_stranger(const WaitOutcome& outcome) {
  newborn_.erase(outcome.tid);
  const ptrace::Tracee tracee(outcome.tid);
  const auto status = kernel::read_status(outcome.tid);
  if (options_.follow && status && status->tgid == outcome.tid && !left_.contains(outcome.tid)) {
    SampledProcess::Space space;
    for (const ProgramRef& program : programs_) {
      if (program->program().pid() == status->parent) space = program->space_of_child();
    }
    programs_.push_back(std::make_shared<SampledProcess>(shadow::Program::born(outcome.tid),
                                                         std::move(space), elapsed()));
    programs_.back()->begin_only_in(options_.only);
    time_.begin(outcome.tid, elapsed());
  }
  // A thread that was left in a call has stopped for what came for the program.
  const bool is_signal = outcome.status.kind() == ptrace::WaitStatus::Kind::signal_stop;
  if (outcome.status.kind() == ptrace::WaitStatus::Kind::group_stop)
    (void)tracee.listen_if_alive();
  else
    (void)tracee.cont_if_alive(is_signal ? outcome.status.signal() : 0);
}

// While no sample runs: what the next one will need is translated, as far as it is known. False:
// there is nothing to be done now.
bool ShadowRun::fill_ahead() {
  return std::ranges::any_of(programs_, [this](const ProgramRef& p) { return fill_ahead(*p); });
}

bool ShadowRun::fill_ahead(SampledProcess& program) {
  emu::TranslationCost cost;
  const auto fresh = program.fill_ahead(options_.directory, options_.plan, cost);
  if (!fresh) return false;
  counts_.fragments += cost.fragments;
  counts_.ahead += cost.fragments;
  counts_.translation_s += cost.seconds;
  if (*fresh != 0) plan_.found_new_code();
  return true;
}

void ShadowRun::charge_pauses_in_vain() {
  for (const ProgramRef& program : programs_) {
    const double stood_s = program->take_stood_in_vain();
    if (stood_s == 0) continue;
    counts_.pauses.push_back(stood_s);
    ledger_.spend(plan::Cause::pause, stood_s);
  }
}

void ShadowRun::look_at_program() {
  const ProgramRef program = choose();
  if (!program || !make_space(*program)) return plan_.missed(elapsed(), plan::What::peek);
  const auto pause = program->look();
  if (!pause) return plan_.missed(elapsed(), plan::What::peek);
  counts_.looks++;
  counts_.pauses.push_back(*pause);
  ledger_.spend(plan::Cause::peek, *pause);
  plan_.peeked(elapsed(), *pause, false);
}

// What the replica and the program have twice because of it, at most: no page that was not copied,
// nor one that the replica does not have.
uint64_t ShadowRun::memory_of(const Sample& sample) const {
  const uint64_t program =
      std::max(probe::faults_of(sample.program->program().pid()), sample.faults_at_fork);
  const Tid replica = sample.executor->tid();
  const uint64_t faults = program - sample.faults_at_fork + probe::faults_of(replica);
  return probe::page_tables_of(replica) +
         std::min(probe::memory_of_faults(faults), probe::anonymous_memory_of(replica));
}

// With another replica of the program.
bool ShadowRun::is_too_large(const ProgramRef& program) {
  if (options_.max_memory == 0) return false;
  uint64_t taken = probe::own_memory() + probe::page_tables_of(program->program().pid());
  if (taken > options_.max_memory) {
    watch_.warn_once("--max-memory allows less than a sample takes: samples wait for memory");
  }
  for (const Sample& sample : samples_) taken += memory_of(sample);
  return taken > options_.max_memory;
}

// It has waited for a processor most of its life, and not because there are several.
bool ShadowRun::is_crowded_out(const Sample& sample) const {
  const bool alone = samples_.size() == 1 || options_.max_shadows == 1;
  return crowding_.at_idle_priority() && alone && elapsed() > sample.forked_at + kIdlePatience_s &&
         plan::Crowding::is_crowded_out(waiting_of(sample, sample.executor->processor_now()));
}

// That the program has copied for a replica that lives, in seconds.
double ShadowRun::cost_of_pages(SampledProcess& program) const {
  return price_.copied * program.faults_of_ours(elapsed());
}

// Even for a single sample. Where no core is idle what it takes of processors is a loss, too.
bool ShadowRun::is_too_dear(const Sample& sample) const {
  if (!sample.budget.goes_on || sample.has_ended) return false;
  const double cost_s =
      cost_of_pages(*sample.program) + crowding_.cost_of(sample.executor->processor_now().used);
  return plan_.is_too_dear(cost_s, sample.life.pause_s, ledger_.unspent_s(elapsed()),
                           may_last(*sample.program));
}

bool ShadowRun::all_are_old() const {
  return std::ranges::all_of(samples_, [now = elapsed()](const Sample& sample) {
    return now > sample.forked_at + kOld_s;
  });
}

void ShadowRun::look_after_replicas() {
  uint64_t taken = options_.max_memory != 0 && !samples_.empty() ? probe::own_memory() : 0;
  const bool checks = elapsed() >= checks_at_;
  if (checks) checks_at_ = elapsed() + (all_are_old() ? kCheckOld_s : kCheck_s);
  for (size_t i = 0; i < samples_.size();) {
    Sample& sample = samples_[i];
    shadow::Execution& executor = *sample.executor;
    executor.on_idle();
    if (checks && is_crowded_out(sample)) {
      crowding_.give_up_idle_priority();
      executor.leave_idle_priority();
    }
    if (elapsed() > sample.began() + kLongestSample_s) executor.request_end(Outcome::too_old);
    if (checks && is_too_dear(sample)) executor.request_end(Outcome::cost);
    if (checks && executor.is_native()) rest_at_shared_core(sample);
    if (executor.ending()) note_end(sample);
    if (options_.max_memory != 0 && !executor.is_done()) taken += memory_of(sample);
    if (taken > options_.max_memory) executor.request_end(Outcome::memory);
    if (!executor.is_done()) {
      i++;
      continue;
    }
    finish(sample);
    const bool verified = sample.verifies;
    samples_.erase(samples_.begin() + static_cast<ptrdiff_t>(i));
    if (verified) conclude_verification();
  }
}

// Exact where the first was our child and has ended while it was sampled (the replicas were, too,
// and so were the first's own children); else as busy since the last look as before.
double ShadowRun::program_cpu_s() const {
  const bool saw_the_end = first().end() && have_ended_;
  if (first().is_ours() && saw_the_end && !is_copy_) {
    return std::max(
        0.0, processor_seconds_of(RUSAGE_CHILDREN) - counts_.replica_cpu_s - cpu_before_s_);
  }
  return watched_cpu_s();
}

double ShadowRun::watched_cpu_s() const {
  double sum = past_cpu_s_;
  for (const ProgramRef& program : programs_) sum += program->cpu_s(sampling_s());
  return sum;
}

uint64_t ShadowRun::signals() const {
  uint64_t sum = past_signals_;
  for (const ProgramRef& program : programs_) sum += program->program().signals();
  return sum;
}

// In an orderly way where that is quick, so that their last records count.
void ShadowRun::end_replicas() {
  for (Sample& sample : samples_) sample.executor->request_end(Outcome::stopped);
  const double deadline = elapsed() + 1.0;
  while (!samples_.empty() && elapsed() < deadline) {
    while (handle_reports()) {
    }
    look_after_replicas();
    if (!samples_.empty()) wait_until(std::min(deadline, elapsed() + shadow::kPollForCollectors_s));
  }
  for (Sample& sample : samples_) {
    if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
  }
  samples_.clear();  // kills what is left
}

// Children first: a parent in vfork(2) does not stop before its child goes on.
void ShadowRun::leave_programs() {
  leave_newborn();
  std::ranges::reverse(programs_);
  for (const ProgramRef& program : programs_) {
    watch_.note_end(program->program());
    leave(program);
  }
}

void ShadowRun::leave(const ProgramRef& program) {
  program->leave();
  for (Tid child : program->program().take_children()) newborn_.insert(child);
  leave_newborn();
}

void ShadowRun::leave_newborn() {
  for (Tid child : newborn_) {
    if (ptrace::wait_for_stop(child)) (void)ptrace::Tracee(child).detach_if_alive();
  }
  newborn_.clear();
}

}  // namespace shadowprof::sample
