// SPDX-License-Identifier: MIT
#include "sample/shadow_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>

#include "base/log.h"
#include "kernel/proc.h"
#include "kernel/table.h"
#include "sample/host.h"
#include "sample/memory_use.h"

namespace shadowprof::sample {

using ptrace::WaitOutcome;
using shadow::Outcome;

namespace {

// A replica that has not used up its budget by then is stuck in something that we do not foresee,
// or the machine has no time for it.
constexpr double kLongestLife = 2.0;
constexpr double kLongestWait = 1.0;
// What collectors and tracer use on top of the replica's own time.
constexpr double kCollectorShare = 1.5;
// Shares of its life that a replica waited for a processor, and when that is first asked.
constexpr double kCrowded = 0.7;
constexpr double kRoomy = 0.2;
constexpr double kPatience = 0.1;
// Seconds until a thread that was stopped runs again, at most, where a core is idle.
constexpr double kWakeUp = 50e-6;
// At 5 GB a second, which is as fast as memory can be written, 10 MB more than allowed are taken.
constexpr double kPollForMemory = 0.002;
// How fast the need for an input log is learned and forgotten, and how much there must be.
constexpr double kLearning = 0.3;
constexpr double kNeeded = 0.5;
// A sample that came so far did not end for want of input too early.
constexpr double kFarEnough = 0.5;
// Of the budget, that looks at where the program is may take. Before the first one it is loaded.
constexpr double kLookShare = 0.1;
constexpr double kFirstLook = 0.005;
constexpr double kLongestFill = 0.3;
// Of a replica, roughly, where no clock says it.
constexpr double kInstructionsPerSecond = 2e9;
// With --verify, one of so many is verified.
constexpr uint64_t kSamplesOfAVerified = 4;

double waiting_share(const shadow::ProcessorTime& time, const shadow::ExecutorCounts& counts) {
  const double waited = std::max(0.0, time.waited - kWakeUp * static_cast<double>(counts.stops()));
  return waited / std::max(1e-9, time.used + waited);
}

// ": read: sentence", as far as there is something to say.
std::string describe(const shadow::Ending& ending) {
  const kernel::SyscallRow* row = kernel::find_syscall(ending.syscall_number);
  std::string text = row ? fmt::format(": {}", row->name) : "";
  if (!ending.detail.empty()) text += ": " + ending.detail;
  return text;
}

// A replica takes what the program writes meanwhile a second time.
bool memory_is_short() {
  constexpr double kLeastShare = 0.05;
  std::ifstream file("/proc/meminfo");
  double total = 0, available = 0;
  std::string key, unit;
  for (double value; file >> key >> value && std::getline(file, unit);) {
    if (key == "MemTotal:") total = value;
    if (key == "MemAvailable:") {
      available = value;
      break;
    }
  }
  return total > 0 && available > 0 && available < kLeastShare * total;
}

}  // namespace

ShadowRun::ShadowRun(trace::BlockTable& table, inject::TraceSink& sink,
                     std::vector<shadow::Program> programs, ShadowRunOptions options,
                     const GovernorOptions& governor, const shadow::FaultPrice& price)
    : table_(table),
      sink_(sink),
      options_(options),
      governor_(governor, price),
      price_(price),
      random_(governor.seed),
      looks_(kLookShare * governor.max_overhead, governor.delay + kFirstLook, governor.seed),
      shadows_now_(options.max_shadows),
      delay_(governor.delay) {
  CHECK(!programs.empty(), "there is nothing to sample");
  for (shadow::Program& program : programs) {
    programs_.push_back(
        std::make_shared<SampledProcess>(std::move(program), SampledProcess::Space(), 0.0));
  }
  first_ = programs_.front();
}

ShadowRun::~ShadowRun() = default;

void ShadowRun::let_go() {
  (void)ptrace::Tracee(first().pid()).cont_if_alive();
}

void ShadowRun::run() {
  while (!programs_.empty()) {
    while (handle_reports()) {
    }
    look_after_replicas();
    if (programs_.empty()) break;
    const double now = elapsed();
    if (watch_.interrupted() || (options_.duration > 0 && now >= options_.duration)) break;
    // What is known already is translated before the first sample, if that does not take long.
    const bool may_wait = counts_.moments == 0 && now < delay_ + kLongestFill;
    if (may_wait && options_.prefill && fill_ahead()) continue;
    if (now >= governor_.next_sample() && has_room()) {
      sample();
      continue;
    }
    if (options_.prefill && samples_.empty() && fill_ahead()) continue;
    wait_until(next_event());
  }
  end_replicas();
  if (programs_.empty()) return;
  leave_programs();
  sampling_s_ = elapsed();
  if (first().is_ours() && !watch_.interrupted()) watch_.wait_for_end(first_->program());
}

double ShadowRun::next_event() const {
  double next = elapsed() + kLongestWait;
  if (has_room()) next = std::min(next, governor_.next_sample());
  if (options_.duration > 0) next = std::min(next, options_.duration);
  if (options_.prefill && samples_.empty()) next = std::min(next, looks_.next());
  if (options_.max_memory != 0 && !samples_.empty()) {
    next = std::min(next, elapsed() + kPollForMemory);
  }
  for (const Sample& sample : samples_) {
    next = std::min(next, elapsed() + sample.executor->next_idle());
    next = std::min(next, sample.forked_at + kLongestLife);
    if (at_idle_priority_) next = std::min(next, elapsed() + kPatience);
  }
  return next;
}

void ShadowRun::wait_until(double moment) {
  watch_.wait_until(moment, first());
  busy_since_ = elapsed();
}

bool ShadowRun::handle_reports() {
  const WaitOutcome outcome = ptrace::wait_any(ptrace::WaitMode::poll);
  if (!outcome.has_status()) return false;
  handle(outcome);
  return true;
}

void ShadowRun::handle(const WaitOutcome& outcome) {
  for (Sample& sample : samples_) {
    if (sample.executor->tid() == outcome.tid) return sample.executor->on_stop(outcome.status);
  }
  for (const ProgramRef& program : programs_) {
    if (program->program().owns(outcome.tid)) return handle_program(ProgramRef(program), outcome);
  }
  if (outcome.status.is_stop()) handle_stranger(outcome);
}

void ShadowRun::handle_program(const ProgramRef& program, const WaitOutcome& outcome) {
  const double now = elapsed();
  program->program().on_stop(outcome.tid, outcome.status, now - busy_since_);
  busy_since_ = now;
  for (Tid child : program->program().take_children()) {
    const auto known = [&](const ProgramRef& p) { return p->program().pid() == child; };
    if (std::none_of(programs_.begin(), programs_.end(), known)) newborn_.insert(child);
  }
  if (!program->program().alive()) forget(program);
}

void ShadowRun::forget(const ProgramRef& program) {
  program->ended(elapsed());
  past_cpu_s_ += program->cpu_s(elapsed());
  past_signals_ += program->program().signals();
  std::erase(programs_, program);
}

// A process that was just born, or a thread that we began to trace as it ended.
void ShadowRun::handle_stranger(const WaitOutcome& outcome) {
  newborn_.erase(outcome.tid);
  const ptrace::Tracee tracee(outcome.tid);
  const auto status = kernel::read_status(outcome.tid);
  if (options_.follow && status && status->tgid == outcome.tid) {
    SampledProcess::Space space;
    for (const ProgramRef& program : programs_) {
      if (program->program().pid() == status->parent) space = program->space_of_child();
    }
    programs_.push_back(std::make_shared<SampledProcess>(shadow::Program::born(outcome.tid),
                                                         std::move(space), elapsed()));
  }
  (void)tracee.cont_if_alive();
}

// While no sample runs: what the next one will need is translated. False: nothing is to be done
// now.
bool ShadowRun::fill_ahead() {
  for (const ProgramRef& program : programs_) {
    if (fill_ahead(*program)) return true;
  }
  if (elapsed() < looks_.next()) return false;
  look_at_program();
  return true;
}

bool ShadowRun::fill_ahead(SampledProcess& program) {
  emu::TranslationCost cost;
  const double begun = elapsed();
  const auto fresh = program.fill_ahead(options_.directory, options_.plan, cost);
  if (!fresh) return false;
  const double spent = elapsed() - begun;
  governor_.disturbed(spent * (at_idle_priority_ ? options_.neighbour_cost : 1));
  counts_.fragments += cost.fragments;
  counts_.ahead += cost.fragments;
  counts_.translation_s += cost.seconds;
  if (*fresh != 0) looks_.found_new();
  return true;
}

void ShadowRun::look_at_program() {
  const ProgramRef program = choose();
  if (!program || !program->make_space(options_.engine, table_)) return looks_.missed(elapsed());
  const auto pause = program->look();
  if (!pause) return looks_.missed(elapsed());
  counts_.looks++;
  counts_.pauses.push_back(*pause);
  governor_.paused(*pause);
  looks_.looked(elapsed(), *pause, false);
}

// What the replica and the program have twice because of it, at most.
uint64_t ShadowRun::memory_of(const Sample& sample) const {
  const uint64_t program = std::max(sample.program->faults(), sample.faults_at_fork);
  const uint64_t faults = program - sample.faults_at_fork + faults_of(sample.executor->tid());
  return page_tables_of(sample.executor->tid()) + memory_of_faults(faults);
}

// With another replica of the program.
bool ShadowRun::is_too_large(const ProgramRef& program) {
  if (options_.max_memory == 0) return false;
  uint64_t taken = own_memory() + page_tables_of(program->program().pid());
  if (taken > options_.max_memory) {
    watch_.warn_once("--max-memory allows less than a sample takes: samples wait for memory");
  }
  for (const Sample& sample : samples_) taken += memory_of(sample);
  return taken > options_.max_memory;
}

// It has waited for a processor most of its life, and not because there are several.
bool ShadowRun::is_crowded_out(const Sample& sample) const {
  const bool alone = samples_.size() == 1 || options_.max_shadows == 1;
  return at_idle_priority_ && alone && elapsed() > sample.forked_at + kPatience &&
         waiting_share(sample.executor->processor_now(), sample.executor->counts()) > kCrowded;
}

void ShadowRun::look_after_replicas() {
  uint64_t taken = options_.max_memory != 0 && !samples_.empty() ? own_memory() : 0;
  for (size_t i = 0; i < samples_.size();) {
    Sample& sample = samples_[i];
    shadow::Execution& executor = *sample.executor;
    executor.on_idle();
    if (is_crowded_out(sample)) {
      at_idle_priority_ = false;
      executor.leave_idle_priority();
    }
    if (elapsed() > sample.forked_at + kLongestLife) executor.request_end(Outcome::too_old);
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

// Exact where the first was our child and has ended (the replicas were, too, and so were the
// first's own children); else as busy since the last look as before.
double ShadowRun::program_cpu_s() const {
  if (first().is_ours() && first().end()) {
    return std::max(0.0, cpu_seconds_of(RUSAGE_CHILDREN) - counts_.replica_cpu_s);
  }
  double sum = past_cpu_s_;
  for (const ProgramRef& program : programs_) sum += program->cpu_s(sampling_s());
  return sum;
}

uint64_t ShadowRun::signals() const {
  uint64_t sum = past_signals_;
  for (const ProgramRef& program : programs_) sum += program->program().signals();
  return sum;
}

// The replica dies: from now on the program copies nothing for it.
void ShadowRun::note_end(Sample& sample) {
  if (sample.has_ended) return;
  sample.has_ended = true;
  const double now = elapsed();
  sample.cost.lifetime = now - sample.forked_at;
  sample.program->end(now, sample.cost);
}

// Its trace is read: what it was worth, and what it cost.
void ShadowRun::finish(Sample& sample) {
  const double now = elapsed();
  note_end(sample);
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  counts_.instructions += done.instructions;
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
  if (!sample.verifies) counts_.ended[to_string(ending.outcome)]++;
  if (ending.outcome == Outcome::fault) sample.program->copy_all_memory();
  if (ending.syscall_number >= 0 && !sample.verifies) {
    counts_.ended_by_number[static_cast<unsigned>(ending.syscall_number)]++;
  }
  detail("sample {}: {} instructions, {} translated, {} misses, {:.1f} ms, ended by {}{}",
         governor_.samples() + 1, done.instructions, done.fragments, done.misses,
         1e3 * (now - sample.forked_at), to_string(ending.outcome), describe(ending));
  detail(
      "  paused {:.0f} us, lived {:.1f} ms, executed {:.2f} of {:.2f} ms; faults {:.0f} and {:.0f} "
      "after",
      1e6 * sample.cost.pause, 1e3 * sample.cost.lifetime, 1e3 * guest_seconds(sample),
      1e3 * sample.length, sample.cost.faults_while_alive, sample.cost.faults_afterwards);
  finish_log(sample, ending);
  if (!sample.executor->is_our_child()) sample.program->died(sample.executor->tid());
  counts_.extra_faults += sample.cost.faults_while_alive + sample.cost.faults_afterwards;
  // Lengths are for samples that are only run.
  if (!sample.verifies) sample.cost.guest_s = guest_seconds(sample);
  if (sample.log) sample.cost.log = sample.log->cost();
  const double waiting = waiting_share(sample.executor->processor(), done);
  sample.cost.contention = judge_crowding(waiting, sample.executor->processor().used);
  if (options_.converge && !sample.verifies) {
    convergence_.sampled(done.shares);
    governor_.set_patience(convergence_.patience());
  }
  governor_.sampled(now, sample.cost);
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
  budget.sample_number = counts_.forks;
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

// A replica that waits for a processor most of its life has no idle core. The next ones compete for
// one then, and their processor time counts as cost. What this one cost, in seconds.
double ShadowRun::judge_crowding(double waiting, double used) {
  const double busy = kCollectorShare * used;
  const double cost = at_idle_priority_ ? options_.neighbour_cost * busy : busy;
  if (samples_.size() > 1 && options_.max_shadows > 1) {
    judge_company(waiting);
    return cost;
  }
  if (waiting < kRoomy) shadows_now_ = std::min(shadows_now_ + 1, options_.max_shadows);
  at_idle_priority_ = at_idle_priority_ ? waiting <= kCrowded : waiting < kRoomy;
  return cost;
}

// Replicas that live at a time take processors from one another first.
void ShadowRun::judge_company(double waiting) {
  if (waiting > kCrowded) {
    shadows_now_ = std::max<size_t>(1, std::min(shadows_now_, samples_.size()) - 1);
  } else if (waiting < kRoomy) {
    shadows_now_ = std::min(shadows_now_ + 1, options_.max_shadows);
  }
}

// The system calls of a program stop for one log at a time.
bool ShadowRun::keeps_log_of(const ProgramRef& program) const {
  return std::any_of(samples_.begin(), samples_.end(),
                     [&](const Sample& s) { return s.log && s.program == program; });
}

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
  if (is_too_large(sample.program)) {
    counts_.no_memory++;
    return governor_.missed(now);
  }
  if (memory_is_short() || !sample.program->make_space(options_.engine, table_)) {
    counts_.refused++;
    return governor_.missed(now);
  }
  sample.forked_at = elapsed();
  sample.program->begin(sample.forked_at, sample.cost);
  const bool verifies = is_to_be_verified();
  sample.faults_at_fork = sample.program->faults();
  const bool is_wanted = options_.input_log == InputLogging::on ||
                         (options_.input_log == InputLogging::automatic && input_need_ > kNeeded);
  const bool logs = is_wanted && !keeps_log_of(sample.program);
  auto replicas =
      sample.program->fork(verifies ? 2 : 1, at_idle_priority_,
                           logs && !verifies ? options_.most_log_s : 0, sample.cost.pause);
  if (!replicas) {
    sample.program->failed(sample.cost);
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
  sample.executor =
      sample.program->make_execution(table_, sink_, std::move(replicas->front()), sample.budget);
  begin(std::move(sample));
}

// The first sample, and then one of a few.
bool ShadowRun::is_to_be_verified() const {
  return options_.verify && samples_.empty() && counts_.moments % kSamplesOfAVerified == 0;
}

void ShadowRun::begin_verification(std::vector<shadow::Replica> replicas, Sample sample) {
  if (!verifier_) {
    auto made = Verifier::create();
    if (!made) {
      watch_.warn_once(made.error().message);
      for (const shadow::Replica& replica : replicas) sample.program->let_die(replica);
      sample.program->failed(sample.cost);
      return governor_.missed(elapsed());
    }
    verifier_ = std::move(*made);
  }
  const shadow::Identity identity = sample.program->identity(replicas.front());
  Sample other;
  other.program = sample.program;
  other.forked_at = sample.forked_at;
  other.faults_at_fork = sample.faults_at_fork;
  other.program->begin(sample.forked_at, other.cost);
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
    sample.program->failed(sample.cost);
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

// In an orderly way where that is quick, so that their last records count.
void ShadowRun::end_replicas() {
  for (Sample& sample : samples_) sample.executor->request_end(Outcome::stopped);
  const double deadline = elapsed() + 1.0;
  while (!samples_.empty() && elapsed() < deadline) {
    while (handle_reports()) {
    }
    look_after_replicas();
    if (!samples_.empty()) wait_until(std::min(deadline, elapsed() + shadow::kPollForCollectors));
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
    program->leave();
    for (Tid child : program->program().take_children()) newborn_.insert(child);
    leave_newborn();
  }
}

void ShadowRun::leave_newborn() {
  for (Tid child : newborn_) {
    if (ptrace::wait_for_stop(child)) (void)ptrace::Tracee(child).detach_if_alive();
  }
  newborn_.clear();
}

}  // namespace shadowprof::sample
