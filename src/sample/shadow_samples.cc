// SPDX-License-Identifier: MIT
//
// One sample from the choice of the program to what it was worth and what it cost.
#include <algorithm>
#include <cerrno>
#include <cmath>
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
// Of a replica, roughly, where no clock says it.
constexpr double kInstructionsPerSecond = 2e9;
// Samples further apart than so many seconds say too little of the program.
constexpr double kSeldom = 1;
// How often faults are counted that come between samples.
constexpr double kSettleEvery = 0.5;
// How long a sample without a fork is, of each thread, and how many seconds that may take. So many
// of each moment: where the interpreter is slow would else less be seen.
constexpr uint64_t kBriefInstructions = 2000;
constexpr double kLongestBurst = 0.005;
constexpr size_t kBriefOnesToCompare = 16;  // with replicas: so often
constexpr double kLookAtMemory = 0.1;  // seconds
// Seconds, up to which the first replica may rest for another look at the neighbourhood, and for
// how long at least.
constexpr double kLastLookForRest = 2.0;
constexpr double kLeastRest = 0.001;
// With --verify, one of so many is verified.
constexpr uint64_t kSamplesOfAVerified = 4;

// Why this program is not forked; null: it may be.
const char* why_no_fork(Tid program) {
  if (!may_be_promised_twice(program))
    return "a replica would take too much of the memory that the kernel may still promise "
           "(vm.overcommit_memory is 2)";
  if (!may_have_another_thread(program))
    return "a replica would take one of the last threads that the program's control group (pids.max) "
           "or its user (ulimit -u) may have";
  return nullptr;
}

// ": read: sentence", as far as there is something to say.
std::string describe(const shadow::Ending& ending) {
  const kernel::SyscallRow* row = kernel::find_syscall(ending.syscall_number);
  std::string text = row ? fmt::format(": {}", row->name) : "";
  if (!ending.detail.empty()) text += ": " + ending.detail;
  return text;
}

}  // namespace

// One of those that run at the moment; any, if it is the only one.
ShadowRun::ProgramRef ShadowRun::choose() {
  if (programs_.size() == 1) return programs_.front();
  std::vector<ProgramRef> running;
  for (const ProgramRef& program : programs_) {
    if (program->program().is_running()) running.push_back(program);
  }
  if (running.empty()) return nullptr;
  return running[std::uniform_int_distribution<size_t>(0, running.size() - 1)(random_)];
}

void ShadowRun::sample() {
  const double now = elapsed();
  Sample sample;
  sample.program = choose();
  if (!sample.program) {
    counts_.sleeping++;
    return governor_.missed(now);
  }
  settle_accounts();
  if (now < governor_.next_sample()) return;
  const double wait = governor_.seconds_until_affordable(sample.program->fork_cost(price_), now);
  const char* no_fork = why_no_fork(sample.program->program().pid());
  interprets_ = (wait > kSeldom || no_fork) && options_.may_interpret && samples_.empty();
  if (interprets_) {
    tell_of_bursts(*sample.program, no_fork);
    return burst(*sample.program);
  }
  if (wait > 0) {
    if (wait > kSeldom && !options_.may_interpret) tell_of_wait(*sample.program, wait);
    return governor_.wait(now + wait);
  }
  if (is_too_large(sample.program)) {
    counts_.no_memory++;
    return governor_.missed(now);
  }
  if (no_fork || memory_is_short(sample.program->program().pid()) || !make_space(*sample.program)) {
    if (no_fork) watch_.warn_once(no_fork);
    counts_.refused++;
    return governor_.missed(now);
  }
  sample.forked_at = elapsed();
  sample.our_cpu_at_fork = cpu_seconds_of(RUSAGE_SELF);
  sample.program->begin(sample.forked_at);
  sample.generation = sample.program->program().generation();
  const bool verifies = is_to_be_verified();
  sample.faults_at_fork = sample.program->faults_seen();
  const bool is_wanted = options_.input_log == InputLogging::on ||
                         (options_.input_log == InputLogging::automatic && input_need_ > kNeeded);
  const bool logs = is_wanted && !keeps_log_of(sample.program);
  auto replicas =
      sample.program->fork(verifies ? 2 : 1, crowding_.at_idle_priority(),
                           logs && !verifies ? options_.most_log_s : 0, sample.cost.pause);
  if (!replicas) {
    sample.program->failed();
    const bool sleeps = replicas.error().errno_value == EAGAIN;
    (sleeps ? counts_.sleeping : counts_.refused)++;
    if (!sleeps && replicas.error().errno_value != ESRCH)
      watch_.warn_once(replicas.error().message);
    return governor_.missed(elapsed());
  }
  counts_.moments++;
  counts_.pauses.push_back(sample.cost.pause);
  sample.length = options_.sample_size != 0
                      ? static_cast<double>(options_.sample_size) / kInstructionsPerSecond
                      : governor_.next_length(elapsed());
  if (verifies) return begin_verification(std::move(*replicas), std::move(sample));
  counts_.forks++;
  sample.log = replicas->front().log;
  sample.budget = budget_of(sample.length);
  sample.numbers = std::make_unique<ReplicaSamples>(weights_, sample.program->program().pid().value,
                                                    sample.program->used());
  sample.budget.sample_number = sample.numbers->number();
  if (may_go_on(sample)) {
    later_.begin(sample.cost.pause);
    sample.budget.next = [this](const shadow::Execution& replica) { return later_sample(replica); };
  }
  sample.executor =
      sample.program->make_execution(table_, sink_, std::move(replicas->front()), sample.budget);
  begin(std::move(sample));
}

// Nothing is sampled meanwhile.
void ShadowRun::tell_of_wait(const SampledProcess& program, double seconds) {
  if (std::exchange(told_of_forks_, true)) return;
  watch_.warn_once(fmt::format(
      "a fork may cost the program {:.0f} ms: the budget pays for the first sample in {:.0f} s (a "
      "greater --max-overhead does sooner)",
      1e3 * program.fork_cost(price_), seconds));
}

void ShadowRun::tell_of_bursts(const SampledProcess& program, const char* no_fork) {
  if (std::exchange(told_of_forks_, true)) return;
  if (no_fork) return info("{}; it is profiled in bursts", no_fork);
  info("a fork may cost the program {:.0f} ms: until the budget pays for that it is profiled in bursts",
       1e3 * program.fork_cost(price_));
}

// A sample of a program that is not forked. Nothing: it sleeps.
std::optional<SampleCost> ShadowRun::interpret(SampledProcess& program) {
  const double begun = elapsed();
  governor_.disturbed(crowding_.cost_of(take_own_cpu()));
  shadow::Budget budget;
  budget.plan = options_.plan;
  budget.stacks = options_.stacks;
  budget.instructions = kBriefInstructions;
  budget.seconds = kLongestBurst;
  budget.sample_number = weights_.taken(program.program().pid().value, program.used(), true);
  const auto done = program.interpret(table_, sink_, budget);
  if (!done) {
    weights_.withdraw(budget.sample_number);
    counts_.sleeping++;
    return std::nullopt;
  }
  counts_.bursts++;
  counts_.instructions += done->instructions;
  counts_.interpreted += done->instructions;
  weights_.recorded(budget.sample_number, done->instructions, done->shares);
  counts_.engine_cpu_s += done->pause;
  counts_.pauses.push_back(done->pause);
  counts_.timeline.push_back(timeline_row(begun, 1, done->instructions, done->pause, done->pause));
  counts_.ended[done->ended]++;
  detail("burst {}: {} instructions interpreted, {:.2f} ms, ended by {}", counts_.bursts,
         done->instructions, 1e3 * done->pause, done->ended);
  SampleCost cost;
  cost.pause = done->pause;
  cost.contention = crowding_.cost_of(take_own_cpu());
  return cost;
}

// Instead of a fork that it cannot afford.
void ShadowRun::burst(SampledProcess& program) {
  const auto cost = interpret(program);
  if (!cost) return governor_.missed(elapsed());
  governor_.interpreted(elapsed(), *cost);
}

// Forks are far apart: what the program does between them.
void ShadowRun::fill_gap() {
  const ProgramRef program = choose();
  const auto cost = program ? interpret(*program) : std::nullopt;
  if (cost && weights_.brief_ones().size() % kBriefOnesToCompare == 0) compare_kinds();
  governor_.filled(elapsed(), cost.value_or(SampleCost()));
}

// Where so many brief samples were taken meanwhile, and hardly a fork, forks are too dear.
void ShadowRun::compare_kinds() {
  const collect::SampleSeries& forked = weights_.replicas();
  const collect::SampleSeries& brief = weights_.brief_ones();
  if (brief.size() == 0) return;
  const bool is_known = forked.size() >= collect::SampleWeights::kFew;
  governor_.know_samples(is_known ? forked.variance() : HUGE_VAL, brief.variance());
}

// Not where samples are asked for one by one, or by their size.
bool ShadowRun::may_fill_gaps() const {
  const bool is_free = options_.later_samples && options_.sample_size == 0;
  return is_free && options_.may_interpret && counts_.moments != 0 && samples_.empty() &&
         !interprets_;
}

// The first sample, and then one of a few.
bool ShadowRun::is_to_be_verified() const {
  return options_.verify && samples_.empty() && counts_.moments % kSamplesOfAVerified == 0;
}

// The system calls of a program stop for one log at a time.
bool ShadowRun::keeps_log_of(const ProgramRef& program) const {
  return std::any_of(samples_.begin(), samples_.end(),
                     [&](const Sample& s) { return s.log && s.program == program; });
}

void ShadowRun::begin_verification(std::vector<shadow::Replica> replicas, Sample sample) {
  if (!verifier_) {
    auto made = Verifier::create();
    if (!made) {
      watch_.warn_once(made.error().message);
      for (const shadow::Replica& replica : replicas) sample.program->let_die(replica);
      sample.program->failed();
      return governor_.missed(elapsed());
    }
    verifier_ = std::move(*made);
  }
  const shadow::Identity identity = sample.program->identity(replicas.front());
  Sample other;
  other.program = sample.program;
  other.forked_at = sample.forked_at;
  other.our_cpu_at_fork = sample.our_cpu_at_fork;
  other.faults_at_fork = sample.faults_at_fork;
  other.program->begin(sample.forked_at);
  other.length = sample.length;
  sample.verifies = other.verifies = true;
  const auto instructions = static_cast<uint64_t>(sample.length * kInstructionsPerSecond);
  sample.executor = verifier_->emulator_side(std::move(replicas[0]), identity, instructions);
  other.executor = verifier_->translator_side(std::move(replicas[1]), identity, instructions);
  begin(std::move(sample));
  begin(std::move(other));
}

void ShadowRun::begin(Sample sample) {
  if (const Status started = sample.executor->start(); !started) {
    counts_.refused++;
    sample.program->failed();
    const int why = started.error().errno_value;
    const bool moved = why == EEXIST;
    if (!moved && why != ESRCH && why != EBUSY) watch_.warn_once(started.error().message);
    if (sample.log) sample.log->close();
    if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
    sample.executor.reset();
    if (moved && samples_.empty() && !sample.verifies) sample.program->drop_space();
    return governor_.missed(elapsed());
  }
  const bool verifies = sample.verifies;
  samples_.push_back(std::move(sample));
  if (verifies) return;
  counts_.most_shadows = std::max<uint64_t>(counts_.most_shadows, samples_.size());
  if (options_.max_shadows > 1) governor_.began(elapsed());
}

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
  for (const auto& [nr, count] : done.by_number) counts_.by_number[nr] += count;
  if (!sample.verifies && !done.ended_between) counts_.ended[to_string(ending.outcome)]++;
  if (done.samples != 0) counts_.ended[to_string(Outcome::budget)] += done.samples;
  if (ending.outcome == Outcome::fault) sample.program->copy_all_memory();
  if (ending.syscall_number >= 0 && !sample.verifies && !done.ended_between) {
    counts_.ended_by_number[static_cast<unsigned>(ending.syscall_number)]++;
  }
  detail("replica {}: {} samples, {} instructions, {} translated, {} misses, {:.1f} ms, ended by {}{}",
         governor_.samples() + 1, done.all_samples(), done.instructions,
         done.fragments, done.misses, 1e3 * (now - sample.forked_at), to_string(ending.outcome),
         describe(ending));
  detail(
      "  paused {:.0f} us, lived {:.1f} ms, executed {:.2f} of {:.2f} ms, natively {:.2f} ms, {:.0f} page "
      "faults",
      1e6 * sample.cost.pause, 1e3 * sample.cost.lifetime, 1e3 * guest_seconds(sample),
      1e3 * sample.length, 1e3 * done.native_s, sample.cost.faults_while_alive);
  if (!sample.verifies) {
    counts_.timeline.push_back(timeline_row(sample.forked_at, done.all_samples(), done.instructions,
                                            sample.cost.pause, sample.cost.lifetime));
  }
  finish_log(sample, ending);
  if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
  counts_.extra_faults += sample.cost.faults_while_alive;
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

// Of so many seconds. The emulator is as slow with code that is fast for the program.
shadow::Budget ShadowRun::budget_of(double length) const {
  shadow::Budget budget;
  budget.plan = options_.plan;
  budget.stacks = options_.stacks;
  budget.price = price_;
  budget.instructions = options_.sample_size;
  if (options_.sample_size != 0) return budget;
  if (options_.engine == Engine::translator) {
    budget.seconds = length;
  } else {
    budget.instructions = static_cast<uint64_t>(length * kInstructionsPerSecond);
  }
  return budget;
}

// While several live at a time it is not known whose page faults the program's are.
bool ShadowRun::may_go_on(const Sample& sample) const {
  return options_.later_samples && sample.budget.seconds > 0 && options_.max_shadows == 1 &&
         !sample.program->has_processor_quota();
}

std::optional<shadow::NextSample> ShadowRun::later_sample(const shadow::Execution& replica) {
  for (Sample& sample : samples_) {
    if (sample.executor.get() == &replica) return later_sample(sample);
  }
  return std::nullopt;
}

// Not of a program that is no more, or another one by now.
std::optional<shadow::NextSample> ShadowRun::later_sample(Sample& sample) {
  const shadow::Program& program = sample.program->program();
  const bool is_same = program.alive() && program.generation() == sample.generation;
  if (!is_same || !crowding_.at_idle_priority() || is_short_of_memory(*sample.program))
    return std::nullopt;
  look_at_core(sample);
  const ReplicaState replica = state_of(sample);
  auto next = later_.next(replica);
  governor_.disturbed(later_.take_loss());
  if (!next) return next;
  if (next->rest_s > 0) {
    sample.sample_began = elapsed() + next->rest_s;
    return next;
  }
  sample.numbers->go_on(replica.executed + next->native_s, sample.executor->counts());
  next->number = sample.numbers->number();
  sample.sample_began = elapsed() + next->native_s;
  return next;
}

ReplicaState ShadowRun::state_of(const Sample& sample) {
  SampledProcess& program = *sample.program;
  const double now = elapsed();
  ReplicaState replica;
  replica.recorded = sample.executor->counts().recorded_s;
  replica.age = now - sample.forked_at;
  const double copied = program.faults_of_ours(now);
  replica.cost = price_.copied * copied + crowding_.cost_of(sample.executor->processor_now().used);
  replica.unspent = governor_.unspent(now);
  replica.executed = sample.executor->guest_seconds() + sample.executor->counts().native_s;
  replica.whole_run = program.used();
  replica.elapsed = now;
  replica.used = replica.whole_run - sample.numbers->forked_at();
  replica.may_last = may_last(program);
  replica.slow_down = shared_core_.slow_down();
  if (is_about_neighbours(program) && looks_at_neighbours_ <= kLastLookForRest) {
    // The look comes first, when both are due.
    replica.rest = std::max(kLeastRest, looks_at_neighbours_ - now);
  }
  replica.next_costs = program.most_fork_cost(price_);
  const SampledProcess::NextFork next = program.next_fork(price_, copied);
  replica.next_may_cost = next.cost;
  replica.next_copies = next.bytes;
  return replica;
}

bool ShadowRun::may_last(const SampledProcess& program) const {
  return is_alone(program) && later_.may_last(crowding_.cost_of(1));
}

// Replicas follow all that it does.
bool ShadowRun::is_alone(const SampledProcess& program) const {
  return programs_.size() == 1 && program.program().thread_count() == 1;
}

// Samples may end a hundred times a second.
bool ShadowRun::is_short_of_memory(const SampledProcess& program) {
  if (elapsed() < looks_at_memory_) return memory_was_short_;
  looks_at_memory_ = elapsed() + kLookAtMemory;
  memory_was_short_ = memory_is_short(program.program().pid());
  return memory_was_short_;
}

// Logging costs the program two stops for each of its system calls: it is for programs whose
// samples end early without.
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

// When both sides of it have ended.
void ShadowRun::conclude_verification() {
  const bool running = std::any_of(samples_.begin(), samples_.end(),
                                   [](const Sample& sample) { return sample.verifies; });
  if (running) return;
  const uint64_t before = verifier_->counts().instructions;
  const auto difference = verifier_->conclude();
  detail("verified: {} instructions agree", verifier_->counts().instructions - before);
  if (difference) watch_.warn_once("the engines do not agree " + *difference);
}

}  // namespace shadowprof::sample
