// SPDX-License-Identifier: MIT
//
// One sample from the choice of the program to its begin. What comes then: shadow_run.cc (proceed),
// shadow_accounts.cc.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/processor_time.h"
#include "plan/jitter.h"
#include "probe/memory_use.h"
#include "sample/host.h"
#include "sample/sampled_program.h"
#include "sample/shadow_run.h"

namespace shadowprof::sample {
namespace {

// A program that cannot be forked is asked about again after so many seconds.
constexpr double kForkAgain_s = 1;
// How long a replica waits for its program's input at first.
constexpr double kGatherInput_s = 0.02;
// How long a sample without a fork is, of a thread, if the time for it suffices
// (plan/brief_length.h). It is worth the time that it stands for, however short it is.
constexpr uint64_t kBriefInstructions = 20'000;
constexpr size_t kBriefOnesToCompare = 4;  // with replicas: so often
// With --verify, one of so many is verified.
constexpr uint64_t kSamplesOfAVerified = 4;

// Why this program is not forked; null: it may be.
const char* why_no_fork(const SampledProcess& sampled) {
  const Tid program = sampled.program().pid();
  if (const char* for_good = sampled.no_fork()) return for_good;
  if (!probe::may_be_promised_twice(program))
    return "a replica would take too much of the memory that the kernel may still promise "
           "(vm.overcommit_memory is 2)";
  if (!probe::may_have_another_thread(program))
    return "a replica would take one of the last threads that the program's control group "
           "(pids.max) or its user (ulimit -u) may have";
  return nullptr;
}

}  // namespace

// One of those that run at the moment; any, if it is the only one.
ShadowRun::ProgramRef ShadowRun::choose() {
  if (programs_.size() == 1 && !is_to_be_left(*programs_.front())) return programs_.front();
  std::vector<ProgramRef> running;
  for (const ProgramRef& program : programs_) {
    if (!is_to_be_left(*program) && program->program().is_running()) running.push_back(program);
  }
  if (running.empty()) return nullptr;
  return running[std::uniform_int_distribution<size_t>(0, running.size() - 1)(random_)];
}

void ShadowRun::fork(const plan::Step& step) {
  Sample sample;
  sample.program = candidate_ = choose();
  if (!sample.program) {
    counts_.sleeping++;
    return plan_.missed(elapsed(), plan::What::fork, nap_s());
  }
  if (options_.only != nullptr) options_.only->learn_code(sample.program->program().pid());
  no_fork_ = why_no_fork(*sample.program);
  if (no_fork_ && options_.may_interpret) {
    forks_again_at_ = elapsed() + kForkAgain_s;
    return;  // the plan knows what else there is
  }
  if (is_too_large(sample.program)) {
    counts_.no_memory++;
    return plan_.missed(elapsed(), plan::What::fork);
  }
  if (no_fork_ || probe::memory_is_short(sample.program->program().pid()) ||
      !make_space(*sample.program)) {
    if (no_fork_) watch_.warn_once(no_fork_);
    counts_.refused++;
    return plan_.missed(elapsed(), plan::What::fork);
  }
  if (!core_is_idle_) crowding_.give_up_idle_priority();
  sample.forked_at = elapsed();
  sample.our_cpu_at_fork = processor_seconds_of(RUSAGE_SELF);
  sample.program->begin(sample.forked_at);
  sample.generation = sample.program->program().generation();
  const bool verifies = is_to_be_verified();
  sample.faults_at_fork = sample.program->faults_seen();
  const bool logs = wants_log() && !keeps_log_of(sample.program);
  auto replicas =
      sample.program->fork(verifies ? 2 : 1, crowding_.at_idle_priority(),
                           logs && !verifies ? options_.most_log_s : 0, sample.life.pause_s);
  if (!replicas) {
    sample.program->failed();
    if (replicas.error().errno_value == ECANCELED) return note_elsewhere(sample.life.pause_s);
    return note_no_replica(*sample.program, replicas.error(), sample.life.pause_s);
  }
  counts_.moments++;
  counts_.pauses.push_back(sample.life.pause_s);
  ledger_.spend(plan::Cause::pause, sample.life.pause_s);
  sample.length = options_.sample_size != 0
                      ? static_cast<double>(options_.sample_size) / kInstructions_per_s
                      : step.length_s;
  if (verifies) return begin_verification(std::move(*replicas), std::move(sample));
  counts_.forks++;
  sample.log = replicas->front().log;
  sample.budget = budget_of(sample.length);
  sample.numbers = std::make_unique<ReplicaSamples>(weights_, sample.program->program().pid().value,
                                                    sample.program->used());
  sample.budget.sample_number = sample.numbers->number();
  sample.budget.goes_on = may_go_on(sample);
  sample.executor =
      sample.program->make_execution(table_, sink_, std::move(replicas->front()), sample.budget);
  if (sample.log) gather_input(sample);
  begin(std::move(sample));
}

// The program goes first, and the tracer does nothing else: what keeps it from a thread that stands
// at a system call is paid for by the program. So is the time that it takes to wake the tracer,
// which on an idle core can be ten times the stop itself: where there is one, it does not sleep.
void ShadowRun::gather_input(const Sample& sample) {
  const double end = elapsed() + kGatherInput_s;
  while (sample.log->is_open() && sample.program->program().alive() && elapsed() < end) {
    if (handle_reports()) continue;
    if (crowding_.at_idle_priority())
      busy_since_ = elapsed();
    else
      wait_until(end);
  }
}

// The programs sleep now; after how long at most are they looked at again? Those that have run
// since they were last seen to sleep are busy ones.
double ShadowRun::nap_s() {
  double used_s = past_cpu_s_;
  for (const ProgramRef& program : programs_) used_s += program->used();
  const bool were_awake = std::exchange(used_at_nap_s_, used_s) != used_s;
  return were_awake ? plan::kToBeMet_s : plan::kLongestRetry_s;
}

void ShadowRun::note_asleep(const SampledProcess& program) {
  (is_stopped(program.program().pid()) ? counts_.stopped : counts_.sleeping)++;
}

// It may have stood still for that: a thread at a signal, say, forks another time.
void ShadowRun::note_no_replica(const SampledProcess& program, const Error& why, double pause_s) {
  const bool comes_again = why.errno_value == EAGAIN;
  if (comes_again && pause_s == 0) {
    note_asleep(program);
  } else {
    counts_.refused++;
  }
  if (pause_s > 0) {
    counts_.pauses.push_back(pause_s);
    ledger_.spend(plan::Cause::pause, pause_s);
  }
  const bool is_told_later = program.no_fork() != nullptr;  // with what is done instead
  if (!comes_again && !is_told_later && why.errno_value != ESRCH) watch_.warn_once(why.message);
  plan_.missed(elapsed(), plan::What::fork, comes_again ? nap_s() : plan::kLongestRetry_s);
}

// The look alone was paid for.
void ShadowRun::note_elsewhere(double pause_s) {
  counts_.elsewhere++;
  counts_.pauses.push_back(pause_s);
  ledger_.spend(plan::Cause::peek, pause_s);
  plan_.elsewhere(elapsed(), pause_s);
}

// Either a fork is dear, or what was done up to now has cost more than the budget gives.
std::string ShadowRun::why_no_fork_yet(const plan::Situation& situation) const {
  if (ledger_.lends_at_s(0) > elapsed() + kSeldom_s)
    return "sampling has cost the program more than the budget gives";
  const double cost_ms = 1e3 * plan::expected_fork_s(situation, prices());
  return fmt::format("a fork may cost the program {:.{}f} ms", cost_ms, cost_ms < 10 ? 2 : 0);
}

// Nothing is sampled meanwhile.
void ShadowRun::tell_of_wait(const plan::Situation& situation, double seconds) {
  if (std::exchange(told_of_forks_, true)) return;
  watch_.warn_once(fmt::format(
      "{}: it pays for the next sample in {:.0f} s (a greater --max-overhead does sooner)",
      why_no_fork_yet(situation), seconds));
}

void ShadowRun::tell_of_bursts(const plan::Step& step) {
  const bool is_instead = step.why == plan::Why::fork_too_dear || step.why == plan::Why::no_fork;
  if (options_.burst_length_s > 0 || !interprets_ || !is_instead) return;
  if (std::exchange(told_of_forks_, true)) return;
  if (no_fork_) return info("{}; it is profiled in bursts", no_fork_);
  plan::Situation memory;
  memory.resident_pages = candidate()->resident_pages();
  memory.written_pages = candidate()->written_pages();
  info("{}: until the budget pays for forks it is profiled in bursts", why_no_fork_yet(memory));
}

// A sample of a program that is not forked; what that cost, in seconds. Nothing: it sleeps, or is
// elsewhere, and that has been noted.
std::optional<double> ShadowRun::interpret(SampledProcess& program) {
  const double begun = elapsed();
  ledger_.spend(plan::Cause::busy_core, crowding_.charge(take_own_cpu()));
  shadow::Budget budget;
  budget.plan = options_.plan;
  budget.plan.load_cycles = false;  // an interpreter's loads have no latency
  budget.stacks = options_.stacks;
  const bool as_wished = options_.burst_length_s > 0;
  budget.instructions = as_wished ? UINT64_MAX : kBriefInstructions;
  budget.seconds =
      as_wished ? options_.burst_length_s * plan::jitter(random_) : brief_length_.seconds();
  budget.sample_number = weights_.taken(program.program().pid().value, program.used(), true);
  std::optional<uint64_t> one;
  if (!options_.interpret_together) one = random_();
  const auto done = program.interpret(table_, sink_, budget, one);
  if (!done) {
    weights_.withdraw(budget.sample_number);
    if (done.error().errno_value == ECANCELED) {
      note_elsewhere(program.take_stood_in_vain());
    } else {
      note_asleep(program);
      plan_.missed(elapsed(), plan::What::burst, nap_s());
    }
    return std::nullopt;
  }
  brief_length_.stopping_took(done->pause - done->emulated_s);
  counts_.bursts++;
  counts_.instructions += done->instructions;
  counts_.interpreted += done->instructions;
  weights_.recorded(budget.sample_number, done->instructions, done->shares, {}, done->drawn);
  counts_.engine_cpu_s += done->pause;
  counts_.pauses.push_back(done->pause);
  counts_.timeline.push_back(timeline_row(begun, 1, done->instructions, done->pause, done->pause));
  counts_.ended[done->ended]++;
  detail("burst {}: {} instructions interpreted in {:.2f} ms, paused {:.2f} ms, ended by {}",
         counts_.bursts, done->instructions, 1e3 * done->emulated_s, 1e3 * done->pause,
         done->ended);
  const double busy_core_s = crowding_.charge(take_own_cpu());
  ledger_.spend(plan::Cause::pause, done->pause);
  ledger_.spend(plan::Cause::busy_core, busy_core_s);
  return done->pause + busy_core_s;
}

void ShadowRun::burst(const plan::Step& step) {
  tell_of_bursts(step);
  const ProgramRef program = choose();
  if (!program) {
    counts_.sleeping++;
    return plan_.missed(elapsed(), plan::What::burst, nap_s());
  }
  if (options_.only != nullptr) options_.only->learn_code(program->program().pid());
  const auto cost_s = interpret(*program);
  if (!cost_s) return;
  if (weights_.brief_ones().size() % kBriefOnesToCompare == 0) compare_kinds();
  plan_.burst(elapsed(), used_s(*program), *cost_s);
}

// How far samples of one kind are from one another, where there are enough.
void ShadowRun::compare_kinds() {
  const collect::SampleSeries& forked = weights_.replicas();
  const collect::SampleSeries& brief = weights_.brief_ones();
  if (brief.size() >= collect::SampleWeights::kFew) burst_variance_ = brief.variance();
  if (forked.size() >= collect::SampleWeights::kFew) fork_variance_ = forked.variance();
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

// Records of two samples are not mixed, or each would count as much as the other, and the program
// stops for one thing at a time.
bool ShadowRun::may_burst_beside_replicas(const ProgramRef& program) const {
  return std::ranges::all_of(samples_, [&](const Sample& s) {
    const bool is_between = s.executor->is_native() || s.executor->is_idle() || s.executor->rests();
    const bool stops_program = s.program == program && s.log && s.log->is_open();
    return is_between && !stops_program;
  });
}

void ShadowRun::begin_verification(std::vector<shadow::Replica> replicas, Sample sample) {
  if (!verifier_) {
    auto made = Verifier::create();
    if (!made) {
      watch_.warn_once(made.error().message);
      for (const shadow::Replica& replica : replicas) sample.program->let_die(replica);
      sample.program->failed();
      return plan_.missed(elapsed(), plan::What::fork);
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
  const auto instructions = static_cast<uint64_t>(sample.length * kInstructions_per_s);
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
    return plan_.missed(elapsed(), plan::What::fork);
  }
  const bool verifies = sample.verifies;
  plan_.forked(elapsed(), used_s(*sample.program));
  samples_.push_back(std::move(sample));
  if (verifies) return;
  counts_.most_shadows = std::max<uint64_t>(counts_.most_shadows, samples_.size());
}

// For so many seconds. The emulator is as slow with code that is fast for the program.
shadow::Budget ShadowRun::budget_of(double length) const {
  shadow::Budget budget;
  budget.plan = options_.plan;
  budget.stacks = options_.stacks;
  budget.price = price_;
  budget.timed_load_s = timed_load_s_;
  budget.instructions = options_.sample_size;
  if (options_.sample_size != 0) return budget;
  if (options_.engine == Engine::translator) {
    budget.seconds = length;
  } else {
    budget.instructions = static_cast<uint64_t>(length * kInstructions_per_s);
  }
  return budget;
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
