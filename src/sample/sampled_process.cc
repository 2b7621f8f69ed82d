// SPDX-License-Identifier: MIT
#include "sample/sampled_process.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "kernel/proc.h"
#include "shadow/emulator_executor.h"
#include "shadow/executor.h"

namespace shadowprof::sample {

SampledProcess::SampledProcess(shadow::Program program, Space space, double now)
    : program_(std::move(program)), space_(std::move(space)), first_look_(now) {
  (void)look(now);
  cpu_at_first_ = cpu_at_last_;
}

Status SampledProcess::make_space(Engine engine, trace::BlockTable& table) {
  if (space_.exists() && space_generation_ == program_.generation()) return {};
  space_ = {};
  if (engine == Engine::translator) {
    SP_ASSIGN(space_.translated, shadow::ShadowSpace::create(table, {.through_jumps = false}));
  } else {
    space_.emulated = std::make_shared<shadow::EmulatorSpace>(table);
  }
  space_generation_ = program_.generation();
  syscall_insn_ = {};
  return {};
}

Result<std::vector<shadow::Replica>> SampledProcess::fork(size_t count, bool at_idle_priority,
                                                          double log_s, double& pause) {
  const auto before = std::chrono::steady_clock::now();
  shadow::Pause stopped(program_);
  if (stopped.threads().empty() || stopped.unusable()) {
    return fail_errno(EAGAIN, "the program sleeps");
  }
  SP_TRY(shadow::reap(stopped, syscall_insn_, zombies_));
  fork_options_.at_idle_priority = at_idle_priority;
  std::vector<shadow::Replica> replicas;
  while (replicas.size() < count) {
    auto replica = shadow::fork_replica(program_, stopped, syscall_insn_, fork_options_);
    if (!replica) {
      for (const shadow::Replica& made : replicas) let_die(made);
      return tl::unexpected(replica.error());
    }
    replicas.push_back(std::move(*replica));
  }
  if (log_s > 0) keep_log(replicas.front(), log_s);
  pause = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  return replicas;
}

void SampledProcess::keep_log(shadow::Replica& replica, double most_s) {
  std::vector<Tid> threads;
  for (const shadow::GuestContext& context : replica.threads) threads.push_back(context.tid);
  replica.log = std::make_shared<shadow::InputLog>(program_.pid(), threads, most_s);
  program_.keep_log(replica.log);
}

void SampledProcess::let_die(const shadow::Replica& replica) {
  shadow::kill_replica(replica);
  if (!replica.is_our_child) died(replica.tracee.tid());
}

std::unique_ptr<shadow::Execution> SampledProcess::make_execution(const trace::BlockTable& table,
                                                                  inject::TraceSink& sink,
                                                                  shadow::Replica replica,
                                                                  const shadow::Budget& budget) {
  const shadow::Identity who = identity(replica);
  if (space_.emulated) {
    return std::make_unique<shadow::EmulatorExecutor>(*space_.emulated, sink, std::move(replica),
                                                      who, budget);
  }
  return std::make_unique<shadow::Executor>(table, *space_.translated, sink, std::move(replica),
                                            who, budget);
}

// Its page faults up to now.
uint64_t SampledProcess::look(double now) {
  const auto stat = kernel::read_process_stat(program_.pid());
  if (!stat) return faults_at_end_;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  cpu_at_last_ = static_cast<double>(stat->user_ticks) / ticks;
  last_look_ = now;
  return stat->minor_faults;
}

void SampledProcess::begin(double now, SampleCost& cost) {
  began_at_ = now;
  faults_at_fork_ = look(now);
  const double gap = now - ended_at_;
  if (ended_at_ <= 0 || gap <= 0) return;
  const auto in_gap =
      static_cast<double>(faults_at_fork_ - std::min(faults_at_fork_, faults_at_end_));
  const double rate = in_gap / gap;
  // It rises slowly: a burst of faults is rather ours than the program's.
  fault_rate_ = fault_rate_ == 0 ? rate : std::min(1.1 * fault_rate_ + 1, rate);
  cost.faults_afterwards = std::max(0.0, in_gap - fault_rate_ * gap);
}

void SampledProcess::end(double now, SampleCost& cost) {
  ended_at_ = now;
  faults_at_end_ = look(now);
  cost.lifetime = now - began_at_;
  const auto faults =
      static_cast<double>(faults_at_end_ - std::min(faults_at_end_, faults_at_fork_));
  cost.faults_while_alive = std::max(0.0, faults - fault_rate_ * cost.lifetime);
}

void SampledProcess::leave() {
  if (!zombies_.empty()) {
    shadow::Pause stopped(program_, shadow::Pause::Whom::one);
    (void)shadow::reap(stopped, syscall_insn_, zombies_);
  }
  program_.detach();
}

double SampledProcess::cpu_s(double now) const {
  const double looked_for = last_look_ - first_look_;
  if (looked_for <= 0) return 0;
  const double whole = (gone_at_ > 0 ? gone_at_ : now) - first_look_;
  return (cpu_at_last_ - cpu_at_first_) * std::max(1.0, whole / looked_for);
}

}  // namespace shadowprof::sample
