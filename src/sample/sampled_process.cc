// SPDX-License-Identifier: MIT
#include "sample/sampled_process.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/elapsed.h"
#include "base/limits.h"
#include "base/processor_time.h"
#include "kernel/control_groups.h"
#include "kernel/proc.h"
#include "sample/serves_first.h"
#include "shadow/emulator_executor.h"
#include "shadow/executor.h"

namespace shadowprof::sample {
namespace {

// At one time: half a millisecond or so of a core.
constexpr size_t kPlacesAhead = 150;
constexpr size_t kFollowedAhead = 150;
// Ten seconds or so: no exec takes that long.
constexpr unsigned kMostSearches = 20;

using Clock = std::chrono::steady_clock;

}  // namespace

SampledProcess::SampledProcess(shadow::Program program, Space space, double now)
    : program_(std::move(program)),
      known_generation_(program_.generation()),
      space_(std::move(space)),
      first_look_(now) {
  (void)look(now);
  cpu_at_first_ = cpu_at_last_;
  used_before_ = used();
}

Status SampledProcess::make_space(Engine engine, trace::BlockTable& table,
                                  const shadow::SpaceOptions& options) {
  if (space_.exists() && space_generation_ == program_.generation()) return {};
  drop_space();
  if (engine == Engine::translator) {
    SP_ASSIGN(space_.translated, shadow::ShadowSpace::create(table, options));
  } else {
    space_.emulated = std::make_shared<shadow::EmulatorSpace>(table);
  }
  space_generation_ = program_.generation();
  syscall_insn_ = {};
  return {};
}

void SampledProcess::drop_space() {
  space_ = {};
  seen_.forget();
  ahead_.clear();
  known_mappings_.clear();
  has_news_ = true;
}

Status SampledProcess::find_calls() {
  if (auto mappings = kernel::read_maps(program_.pid())) {
    fork_options_.mappings = std::move(*mappings);
  }
  // The program runs: if it just executes another, its memory is not what was read of its maps.
  const auto found = shadow::find_calls(program_.pid(), fork_options_, syscall_insn_);
  if (!found && ++searches_in_vain_ < kMostSearches)
    return fail_errno(EAGAIN, "{}", found.error().message);
  SP_ASSIGN(syscall_insn_, found);
  searches_in_vain_ = 0;
  return {};
}

Result<std::vector<shadow::Replica>> SampledProcess::fork(size_t count, bool at_idle_priority,
                                                          double log_s, double& pause) {
  SP_TRY(find_calls());
  fork_options_.at_idle_priority = at_idle_priority;
  std::vector<shadow::Replica> replicas;
  Status forked;
  SP_ASSIGN(pause, hold([&](shadow::Pause& stopped) {
              forked = check_part(part_, stopped);
              if (forked) forked = fork_into(stopped, replicas, count, log_s);
            }));
  if (!forked) {
    for (const shadow::Replica& made : replicas) let_die(made);
    const int why = forked.error().errno_value;
    if (why == EPERM || why == EBUSY) {
      no_fork_ = forked.error().message;
      no_fork_of_ = program_.generation();
    }
    return tl::unexpected(forked.error());
  }
  for (shadow::Replica& replica : replicas)
    shadow::make_humble(replica, syscall_insn_, fork_options_.mappings);
  for (const shadow::GuestContext& thread : replicas.front().threads) {
    see(replicas.front().tracee.tid(), thread.registers);
  }
  return replicas;
}

Status SampledProcess::fork_into(shadow::Pause& stopped, std::vector<shadow::Replica>& replicas,
                                 size_t count, double log_s) {
  SP_TRY(shadow::reap(program_, stopped, syscall_insn_, fork_options_, zombies_));
  while (replicas.size() < count) {
    // Nothing between a fork and the note of it may fail.
    replicas.reserve(count);
    replicas_.reserve(replicas_.size() + 1);
    SP_ASSIGN(shadow::Replica replica,
              shadow::fork_replica(program_, stopped, syscall_insn_, fork_options_, zombies_));
    if (!replica.is_our_child) replicas_.push_back(replica.tracee.tid());
    replicas.push_back(std::move(replica));
  }
  if (log_s > 0) keep_log(replicas.front(), log_s);
  return {};
}

Result<SampledProcess::Interpreted> SampledProcess::interpret(trace::BlockTable& table,
                                                              trace::TraceSink& sink,
                                                              const shadow::Budget& budget,
                                                              std::optional<uint64_t> only) {
  if (!interpreter_ || interpreter_generation_ != program_.generation()) {
    interpreter_ = std::make_unique<BurstEmulator>(table, sink, budget.plan, budget.stacks);
    interpreter_generation_ = program_.generation();
    written_ = {};
  }
  interpreter_->number_next(budget.sample_number);
  interpreter_->limit(budget.instructions);
  interpreter_->look_at(program_);
  const auto before = Clock::now();
  double went_on_s = 0;
  bool has_stopped_any = false;
  Status ready;
  std::optional<ServesNow> now(std::in_place);
  {
    using enum shadow::Pause::Whom;
    shadow::Pause stopped(program_, only ? one_running : running, only.value_or(0));
    now.reset();  // it may have to make calls, on the same processor
    ready = stopped.is_usable();
    if (ready) ready = check_part(part_, stopped);
    if (ready) ready = interpreter_->begin(stopped);
    went_on_s = stopped.went_on_s();
    has_stopped_any = stopped.has_stopped_any();
  }
  if (!ready) {
    if (has_stopped_any) stood_in_vain_s_ += seconds_since(before) - went_on_s;
    return tl::unexpected(ready.error());
  }
  now.emplace();
  const auto begun = Clock::now();
  while (seconds_since(begun) < budget.seconds && interpreter_->work()) {
  }
  Interpreted done;
  done.emulated_s = seconds_since(begun);
  if (interpreter_->is_over()) done.ended = interpreter_->reason();
  interpreter_->end();
  now.reset();
  done.pause = seconds_since(before) - went_on_s;
  done.instructions = interpreter_->conclude();
  written_.burst(interpreter_->written_pages());
  done.shares = *interpreter_->shares();
  done.drawn = interpreter_->drawn();
  return done;
}

// `process` has the memory that the program had with these registers.
void SampledProcess::see(Tid process, const ptrace::Registers& registers) {
  has_news_ = true;
  if (space_.translated) seen_.look(process, registers);
}

Result<double> SampledProcess::hold(const std::function<void(shadow::Pause&)>& work) {
  const auto before = Clock::now();
  double went_on_s = 0;
  bool has_stopped_any = false;
  Status usable;
  {
    shadow::Pause stopped(program_);
    went_on_s = stopped.went_on_s();
    has_stopped_any = stopped.has_stopped_any();
    usable = stopped.is_usable();
    if (usable) work(stopped);
  }
  const double stood_s = seconds_since(before) - went_on_s;
  if (usable) return stood_s;
  if (has_stopped_any) stood_in_vain_s_ += stood_s;
  return tl::unexpected(usable.error());
}

Result<double> SampledProcess::look() {
  return hold([this](shadow::Pause& stopped) {
    for (const shadow::PausedThread& thread : stopped.threads()) {
      see(program_.pid(), thread.registers);
    }
  });
}

std::optional<size_t> SampledProcess::fill_ahead(CodeDirectory* directory, emu::CapturePlan plan,
                                                 emu::TranslationCost& cost) {
  const bool is_current = space_.translated && space_generation_ == program_.generation();
  if (!is_current || (!has_news_ && ahead_.empty())) return std::nullopt;
  const auto mappings = kernel::read_maps(program_.pid());
  if (!mappings || !space_.translated->look_at_program(program_.pid(), *mappings)) {
    has_news_ = false;
    return std::nullopt;
  }
  if (std::exchange(has_news_, false)) {
    for (GuestAddr pc : seen_.take(space_.translated->code())) ahead_.push_back(pc);
    if (directory) {
      for (GuestAddr pc : directory->addresses(program_.pid(), *mappings, known_mappings_)) {
        ahead_.push_back(pc);
      }
    }
  }
  const size_t count = std::min(ahead_.size(), kPlacesAhead);
  const std::vector<GuestAddr> now(ahead_.end() - static_cast<ptrdiff_t>(count), ahead_.end());
  ahead_.resize(ahead_.size() - count);
  return space_.translated->translate_ahead(now, kFollowedAhead, plan, cost);
}

void SampledProcess::keep_log(shadow::Replica& replica, double most_s) {
  std::vector<Tid> threads;
  for (const shadow::GuestContext& context : replica.threads) threads.push_back(context.tid);
  replica.log = std::make_shared<shadow::InputLog>(program_.pid(), threads, most_s);
  program_.keep_log(replica.log);
}

void SampledProcess::died(Tid replica) {
  std::erase(replicas_, replica);
  zombies_.push_back(replica);
}

void SampledProcess::let_die(const shadow::Replica& replica) {
  shadow::kill_replica(replica.tracee.tid());
  if (!replica.is_our_child) died(replica.tracee.tid());
}

std::unique_ptr<shadow::Execution> SampledProcess::make_execution(const trace::BlockTable& table,
                                                                  trace::TraceSink& sink,
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

// Its page faults up to now, and its time; of one that has ended, as they were last.
FaultMarks SampledProcess::look(double now, std::optional<uint64_t> reused) {
  const auto stat = kernel::read_process_stat(program_.pid());
  if (!stat) return marks_;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  cpu_at_last_ = static_cast<double>(stat->user_ticks + stat->system_ticks) / ticks;
  last_look_ = now;
  const auto pages = kernel::read_statm(program_.pid()).value_or(kernel::MemoryPages{});
  const uint64_t own = pages.resident - std::min(pages.resident, pages.of_files);
  marks_ = {stat->minor_faults, own, pages.resident, reused};
  return marks_;
}

bool SampledProcess::has_processor_quota() {
  if (!has_processor_quota_) has_processor_quota_ = kernel::has_processor_quota(program_.pid());
  return *has_processor_quota_;
}

void SampledProcess::end_lost_replicas() {
  while (!replicas_.empty()) {
    const Tid replica = replicas_.back();
    shadow::kill_replica(replica);
    died(replica);
  }
}

// A thread that happens to be at a signal, or at a system call for the log, goes on and is stopped
// again: it would not find its way back from there. To leave zombies would be worse.
void SampledProcess::leave() {
  using enum shadow::WayBack;
  constexpr int kMostStops = 10;
  program_.keep_log(nullptr);
  for (int left = kMostStops; left > 0 && !zombies_.empty() && find_calls(); left--) {
    shadow::Pause stopped(program_, shadow::Pause::Whom::one);
    const Status done = shadow::reap(program_, stopped, syscall_insn_, fork_options_, zombies_,
                                     left > 1 ? needed : if_possible);
    if (done || done.error().errno_value != EAGAIN) break;
  }
  program_.detach();
}

double SampledProcess::used() {
  used_ = processor_seconds_of(program_.pid()).value_or(used_);
  return used_ - used_before_;
}

double SampledProcess::cpu_s(double now) const {
  const double looked_for = last_look_ - first_look_;
  if (looked_for <= 0) return 0;
  const double whole = (gone_at_ > 0 ? gone_at_ : now) - first_look_;
  return (cpu_at_last_ - cpu_at_first_) * std::max(1.0, whole / looked_for);
}

}  // namespace shadowprof::sample
