// SPDX-License-Identifier: MIT
#include "sample/shadow_run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>

#include "base/log.h"
#include "kernel/proc.h"
#include "kernel/table.h"
#include "sample/host.h"

namespace shadowprof::sample {

using ptrace::WaitOutcome;
using shadow::Outcome;

namespace {

// A replica that has not used up its budget by then is stuck in something that we do not foresee,
// or the machine has no time for it.
constexpr double kLongestLife = 2.0;
constexpr double kPollForCollectors = 0.0002;
constexpr double kLongestWait = 1.0;
// Where no core is idle: the sample's part of its usual size, and what collectors and tracer use on
// top of the replica's own time.
constexpr uint64_t kCrowdedPart = 10;
constexpr double kCollectorShare = 1.5;
// Shares of its life that a replica waited for a processor, and when that is first asked.
constexpr double kCrowded = 0.7;
constexpr double kRoomy = 0.2;
constexpr double kPatience = 0.1;
// Instructions, unless the user says how many.
constexpr uint64_t kFirstSample = 10'000'000;
constexpr uint64_t kLongestSample = 80'000'000;
constexpr uint64_t kSamplesOfASize = 4;

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

double waiting_share(const shadow::ProcessorTime& time) {
  return time.waited / std::max(1e-9, time.used + time.waited);
}

bool is_crowded(const shadow::ProcessorTime& time) {
  return waiting_share(time) > kCrowded;
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

ShadowRun::ShadowRun(trace::BlockTable& table, inject::TraceSink& sink, shadow::Program program,
                     ShadowRunOptions options, const GovernorOptions& governor,
                     const FaultPrice& price)
    : table_(table),
      sink_(sink),
      program_(std::move(program)),
      options_(options),
      governor_(governor, price),
      start_(std::chrono::steady_clock::now()) {}

ShadowRun::~ShadowRun() = default;

double ShadowRun::elapsed() const {
  return seconds(std::chrono::steady_clock::now() - start_);
}

void ShadowRun::let_go() {
  (void)ptrace::Tracee(program_.pid()).cont_if_alive();
}

void ShadowRun::run() {
  while (program_.alive()) {
    while (handle_reports()) {
    }
    look_after_replicas();
    if (!program_.alive()) break;
    const double now = elapsed();
    if (interrupted_ || (options_.duration > 0 && now >= options_.duration)) break;
    if (now >= governor_.next_sample() && samples_.size() < options_.max_shadows) {
      sample();
      continue;
    }
    wait_until(next_event());
  }
  end_replicas();
  if (!program_.alive()) return;
  leave_program();
  sampling_s_ = elapsed();
  if (program_.is_ours() && !interrupted_) wait_for_end();
}

// Untraced, the program that we launched is still our child.
void ShadowRun::wait_for_end() {
  while (program_.alive() && !interrupted_) {
    const WaitOutcome outcome = ptrace::wait_for(program_.pid(), ptrace::WaitMode::poll);
    if (outcome.has_status() && outcome.status.is_dead()) {
      program_.on_stop(outcome.tid, outcome.status);
    } else {
      wait_until(elapsed() + kLongestWait);
    }
  }
}

double ShadowRun::next_event() const {
  double next = elapsed() + kLongestWait;
  if (samples_.size() < options_.max_shadows) next = std::min(next, governor_.next_sample());
  if (options_.duration > 0) next = std::min(next, options_.duration);
  for (const Sample& sample : samples_) {
    if (sample.executor->waits_for_collectors())
      next = std::min(next, elapsed() + kPollForCollectors);
    next = std::min(next, sample.forked_at + kLongestLife);
    if (fork_options_.at_idle_priority) next = std::min(next, elapsed() + kPatience);
  }
  return next;
}

// Signals are blocked in all our threads, so none is lost between a look and the wait.
void ShadowRun::wait_until(double moment) {
  const double left = std::max(0.0, moment - elapsed());
  timespec time{};
  time.tv_sec = static_cast<time_t>(left);
  time.tv_nsec = static_cast<long>(1e9 * (left - static_cast<double>(time.tv_sec)));
  const sigset_t awaited = awaited_signals();
  const int signal = ::sigtimedwait(&awaited, nullptr, &time);
  if (signal <= 0 || signal == SIGCHLD) return;
  if (signal == kFrontDied || !program_.is_ours()) {
    interrupted_ = true;
  } else if (signal != SIGINT && signal != SIGQUIT) {
    ::kill(program_.pid().value, signal);
  }
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
  if (program_.owns(outcome.tid)) return program_.on_stop(outcome.tid, outcome.status);
  // A thread that we began to trace as it ended.
  if (outcome.status.is_stop()) (void)ptrace::Tracee(outcome.tid).cont_if_alive();
}

void ShadowRun::look_after_replicas() {
  for (size_t i = 0; i < samples_.size();) {
    Sample& sample = samples_[i];
    shadow::Executor& executor = *sample.executor;
    executor.on_idle();
    if (fork_options_.at_idle_priority && elapsed() > sample.forked_at + kPatience &&
        is_crowded(executor.processor_now())) {
      fork_options_.at_idle_priority = false;
      executor.leave_idle_priority();
    }
    if (elapsed() > sample.forked_at + kLongestLife) executor.request_end(Outcome::too_old);
    if (!executor.is_done()) {
      i++;
      continue;
    }
    finish(sample);
    samples_.erase(samples_.begin() + static_cast<ptrdiff_t>(i));
  }
}

// Its page faults up to now.
uint64_t ShadowRun::look_at_program() {
  const auto stat = kernel::read_process_stat(program_.pid());
  if (!stat) return faults_at_end_;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  cpu_s_ = static_cast<double>(stat->user_ticks) / ticks;
  if (cpu_before_ < 0) cpu_before_ = program_.is_ours() ? 0 : cpu_s_;
  looked_at_ = elapsed();
  return stat->minor_faults;
}

// Exact where it was our child and has ended (the replicas were, too); else as busy since the last
// look as before.
double ShadowRun::program_cpu_s() const {
  if (program_.is_ours() && program_.end()) {
    return std::max(0.0, cpu_seconds_of(RUSAGE_CHILDREN) - counts_.replica_cpu_s);
  }
  if (looked_at_ <= 0 || cpu_before_ < 0) return 0;
  return (cpu_s_ - cpu_before_) * std::max(1.0, sampling_s() / looked_at_);
}

// The replica is dead: what it was worth, and what it cost.
void ShadowRun::finish(Sample& sample) {
  const double now = elapsed();
  const shadow::ExecutorCounts& done = sample.executor->counts();
  const shadow::Ending& ending = *sample.executor->ending();
  counts_.instructions += done.instructions;
  counts_.fragments += done.fragments;
  counts_.misses += done.misses;
  counts_.drains += done.drains;
  counts_.system_calls += done.system_calls;
  counts_.private_pages += done.private_pages;
  counts_.translation_s += done.translation_s;
  counts_.replica_cpu_s += sample.executor->processor().used;
  for (const auto& [nr, count] : done.by_number) counts_.by_number[nr] += count;
  counts_.ended[to_string(ending.outcome)]++;
  // Perhaps it missed memory.
  if (ending.outcome == Outcome::fault) fork_options_.all_memory = true;
  if (ending.syscall_number >= 0) {
    counts_.ended_by_number[static_cast<unsigned>(ending.syscall_number)]++;
  }
  detail("sample {}: {} instructions, {} translated, {} misses, {:.1f} ms, ended by {}{}",
         governor_.samples() + 1, done.instructions, done.fragments, done.misses,
         1e3 * (now - sample.forked_at), to_string(ending.outcome), describe(ending));
  if (!sample.executor->is_our_child()) zombies_.push_back(sample.executor->tid());

  const uint64_t faults = look_at_program();
  sample.cost.lifetime = now - sample.forked_at;
  const double by_itself = fault_rate_ * sample.cost.lifetime;
  sample.cost.faults_while_alive = std::max(
      0.0, static_cast<double>(faults - std::min(faults, sample.faults_at_fork)) - by_itself);
  counts_.extra_faults += sample.cost.faults_while_alive + sample.cost.faults_afterwards;
  faults_at_end_ = faults;
  ended_at_ = now;
  judge_crowding(sample.executor->processor(), sample.cost);
  governor_.sampled(now, sample.cost);
}

// A replica that waits for a processor most of its life has no idle core. The next ones compete for
// one then, are smaller, and their processor time counts as cost.
void ShadowRun::judge_crowding(const shadow::ProcessorTime& time, SampleCost& cost) {
  const double busy = kCollectorShare * time.used;
  if (fork_options_.at_idle_priority) {
    cost.contention = options_.neighbour_cost * busy;
    fork_options_.at_idle_priority = !is_crowded(time);
    return;
  }
  cost.contention = busy;
  if (waiting_share(time) < kRoomy) fork_options_.at_idle_priority = true;
}

Status ShadowRun::refresh_space() {
  if (space_ && space_generation_ == program_.generation()) return {};
  if (!samples_.empty()) return fail("replicas of the former program still run");
  SP_ASSIGN(space_, shadow::ShadowSpace::create(table_, {.through_jumps = false}));
  space_generation_ = program_.generation();
  syscall_insn_ = {};
  return {};
}

Result<shadow::Replica> ShadowRun::fork(double& pause) {
  const double before = elapsed();
  shadow::Pause stopped(program_);
  if (stopped.threads().empty() || stopped.unusable())
    return fail_errno(EAGAIN, "the program sleeps");
  SP_TRY(shadow::reap(stopped, syscall_insn_, zombies_));
  auto replica = shadow::fork_replica(program_, stopped, syscall_insn_, fork_options_);
  pause = elapsed() - before;
  return replica;
}

void ShadowRun::sample() {
  const double now = elapsed();
  if (memory_is_short()) {
    counts_.refused++;
    return governor_.missed(now);
  }
  if (const Status ready = refresh_space(); !ready) return governor_.missed(now);
  Sample sample;
  sample.forked_at = now;
  const uint64_t faults = look_at_program();
  if (const double gap = now - ended_at_; ended_at_ > 0 && gap > 0) {
    const double in_gap = static_cast<double>(faults - std::min(faults, faults_at_end_));
    const double rate = in_gap / gap;
    fault_rate_ = fault_rate_ == 0 ? rate : std::min(1.1 * fault_rate_ + 1, rate);
    sample.cost.faults_afterwards = std::max(0.0, in_gap - fault_rate_ * gap);
  }
  sample.faults_at_fork = faults;

  auto replica = fork(sample.cost.pause);
  if (!replica) {
    const bool sleeps = replica.error().errno_value == EAGAIN;
    (sleeps ? counts_.sleeping : counts_.refused)++;
    if (!sleeps && replica.error().errno_value != ESRCH) warn_once(replica.error().message);
    return governor_.missed(elapsed());
  }
  counts_.forks++;
  counts_.pauses.push_back(sample.cost.pause);
  const bool crowded = !fork_options_.at_idle_priority;
  const uint64_t size = sample_size() / (crowded ? kCrowdedPart : 1);
  const shadow::Budget budget{size, counts_.forks, options_.plan};
  const shadow::Identity identity{program_.pid(), replica->parent_pid};
  sample.executor = std::make_unique<shadow::Executor>(table_, *space_, sink_, std::move(*replica),
                                                       identity, budget);
  if (const Status started = sample.executor->start(); !started) {
    counts_.refused++;
    const bool moved = started.error().errno_value == EEXIST;
    if (!moved && started.error().errno_value != ESRCH) warn_once(started.error().message);
    if (!sample.executor->is_our_child()) zombies_.push_back(sample.executor->tid());
    sample.executor.reset();
    if (moved && samples_.empty()) space_.reset();
    return governor_.missed(elapsed());
  }
  samples_.push_back(std::move(sample));
}

// Short ones first, so that a short run has several; then longer ones, which cost the program less
// for each instruction.
uint64_t ShadowRun::sample_size() const {
  if (options_.sample_size != 0) return options_.sample_size;
  const uint64_t doublings = std::min<uint64_t>(counts_.forks / kSamplesOfASize, 8);
  return std::min(kFirstSample << doublings, kLongestSample);
}

void ShadowRun::warn_once(const std::string& sentence) {
  if (std::find(warnings_.begin(), warnings_.end(), sentence) == warnings_.end()) {
    warnings_.push_back(sentence);
  }
}

// In an orderly way where that is quick, so that their last records count.
void ShadowRun::end_replicas() {
  for (Sample& sample : samples_) sample.executor->request_end(Outcome::stopped);
  const double deadline = elapsed() + 1.0;
  while (!samples_.empty() && elapsed() < deadline) {
    while (handle_reports()) {
    }
    look_after_replicas();
    if (!samples_.empty()) wait_until(std::min(deadline, elapsed() + kPollForCollectors));
  }
  for (Sample& sample : samples_) {
    if (!sample.executor->is_our_child()) zombies_.push_back(sample.executor->tid());
  }
  samples_.clear();  // kills what is left
}

void ShadowRun::leave_program() {
  (void)look_at_program();
  if (!zombies_.empty()) {
    shadow::Pause stopped(program_, shadow::Pause::Whom::one);
    (void)shadow::reap(stopped, syscall_insn_, zombies_);
  }
  program_.detach();
}

}  // namespace shadowprof::sample
