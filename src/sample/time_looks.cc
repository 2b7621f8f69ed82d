// SPDX-License-Identifier: MIT
#include "sample/time_looks.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/processor_time.h"
#include "kernel/proc.h"
#include "ptrace/remote_memory.h"

namespace shadowprof::sample {
namespace {

using Clock = std::chrono::steady_clock;

// For each process and look; which of more is drawn.
constexpr size_t kMostThreads = 16;
// Who has not stopped by then waits for a processor, or is in the kernel for long.
constexpr double kPeekPatience_s = 60e-6;
// Until then its processor is not to be given to others, nor ours.
constexpr double kEager_s = 25e-6;
// Assumed: what a thread loses after it was let go, until it executes again.
constexpr double kWakeUp_s = 10e-6;
// What is mapped may be read for this part of our time.
constexpr double kMapsShare = 0.01;
// The kernel's account of a thread or process is known up to the last look. Of one that has used as
// much as this many intervals that is nearly all.
constexpr double kEnoughRatio = 20;
constexpr size_t kLongestInstructionBytes = 15;
// Where fewer looks count, those that have taken their thread's processor do, if there are more.
constexpr uint64_t kEnoughLooks = 200;
constexpr size_t kMostDoubtful = 10'000;

std::optional<double> used_by(Tid thread) {
  const auto times = kernel::read_schedstat(thread);
  return times ? std::optional(1e-9 * static_cast<double>(times->used)) : std::nullopt;
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

bool counts(const shadow::SeenThread& seen, double late_s, bool may_lose_it) {
  if (!seen.at_stop) return true;
  const auto result = static_cast<int64_t>(seen.registers.rax);
  Asked asked{seen.before, *seen.at_stop, late_s + seconds(seen.stopped_at - seen.asked_at)};
  asked.may_lose_it = may_lose_it;
  asked.was_asleep = seen.registers.restart_pending() ||
                     (seen.registers.in_syscall() && result == -int64_t{EINTR});
  return had_processor(asked);
}

// What it lost while it wanted a processor, and we were about to look.
double waited_s(const shadow::SeenThread& seen) {
  if (!seen.at_stop) return 0;
  return 1e-9 * static_cast<double>(seen.at_stop->waited -
                                    std::min(seen.at_stop->waited, seen.before.waited));
}

}  // namespace

TimeLooks::TimeLooks(double budget_share, uint64_t seed, ProgramAccess access,
                     clock::TimeAccount& account)
    : access_(std::move(access)), account_(account), moments_(budget_share, seed), random_(seed) {}

Status TimeLooks::begin(Tid process, double now) {
  Watched watched;
  watched.began_s = now;
  if (const shadow::Program* program = access_.find(process))
    watched.generation = program->generation();
  watched.used.at_begin_s = processor_seconds_of(process).value_or(0);
  for (const Tid thread : kernel::list_threads(process).value_or(std::vector<Tid>()))
    watched.threads[thread].at_begin_s = used_by(thread).value_or(0);
  watched_[process] = std::move(watched);
  if (first_.value != 0) return {};
  first_ = process;
  schedule_.begin(process);
  moments_.begin(now);
  return {};
}

void TimeLooks::look(double now) {
  if (now < moments_.next()) return;
  const auto begun = Clock::now();
  const double ours_s = processor_seconds_of_this_thread();
  const double late_s = now - moments_.next();
  const Moment moment{now, late_s, moments_.take(now)};
  std::vector<Tid> processes;
  for (const auto& [process, watched] : watched_) processes.push_back(process);
  stopped_s_ = 0;
  stopped_ = 0;
  for (const Tid process : processes) look_at(process, moment);
  schedule_.look();
  const double price_s = stopped_ == 0 ? 0 : stopped_s_ / stopped_ + kWakeUp_s;
  cost_s_ += price_s;
  moments_.paid(price_s, processor_seconds_of_this_thread() - ours_s, now + seconds_since(begun));
}

void TimeLooks::look_at(Tid process, const Moment& moment) {
  Watched& watched = watched_.at(process);
  shadow::Program* program = access_.find(process);
  if (!program || !program->alive()) {
    conclude(process, watched);
    watched_.erase(process);
    return;
  }
  program->adopt_new_threads();
  if (std::exchange(watched.generation, program->generation()) != program->generation()) {
    watched.pending.clear();
    note_exec(process);
  }
  take_seen(process, watched, moment.now);
  const std::vector<Tid> all = program->threads();
  const std::vector<Tid> chosen = choose(all);
  const double stands_for_s = std::min(moment.stands_for_s, moment.now - watched.began_s) *
                              static_cast<double>(all.size()) /
                              static_cast<double>(std::max<size_t>(1, chosen.size()));
  for (const Tid thread : chosen) {
    if (const auto used_s = used_by(thread)) watched.threads[thread].now_s = *used_s;
    program = access_.find(process);
    if (!program || !program->look_at(thread)) continue;
    Pending& pending = watched.pending[thread];
    pending.stands_for_s += stands_for_s;
    pending.late_s = std::max(pending.late_s, moment.late_s);
    pending.stopped_s = look_at_thread(process, thread);
  }
  read_processor_time(process, watched);
  take_seen(process, watched, moment.now);
}

std::vector<Tid> TimeLooks::choose(std::vector<Tid> threads) {
  std::ranges::shuffle(threads, random_);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  return threads;
}

// It was asked to stop, and goes on as soon as that is seen. For how long it stood still; 0: it has
// not stopped yet.
double TimeLooks::look_at_thread(Tid process, Tid thread) {
  const auto begun = Clock::now();
  for (double passed_s = 0; passed_s < kPeekPatience_s; passed_s = seconds_since(begun)) {
    access_.serve(thread);
    const shadow::Program* program = access_.find(process);
    if (!program || !program->owns(thread)) return 0;
    if (program->has_seen(thread)) return seconds_since(begun);
    if (passed_s > kEager_s) ::sched_yield();
  }
  return 0;
}

void TimeLooks::take_seen(Tid process, Watched& watched, double now) {
  shadow::Program* program = access_.find(process);
  if (!program || program->generation() != watched.generation) return;
  const std::vector<shadow::SeenThread> all = program->take_seen();
  if (!all.empty()) learn_code(process, watched, now, all);
  for (const shadow::SeenThread& seen : all) {
    auto pending = watched.pending.extract(seen.thread);
    if (pending.empty()) continue;
    const Pending& look = pending.mapped();
    stops_++;
    if (counts(seen, look.late_s, false)) {
      watched.looks++;
      stopped_s_ += look.stopped_s + waited_s(seen);
      stopped_++;
      account_.add({monotonic_ns(), tick_of(process, seen, look.stands_for_s)});
      continue;
    }
    waiting_++;
    if (counts(seen, look.late_s, true) && watched.doubtful.size() < kMostDoubtful)
      watched.doubtful.emplace_back(monotonic_ns(), tick_of(process, seen, look.stands_for_s));
  }
  std::erase_if(watched.pending, [&](const auto& p) { return !program->owns(p.first); });
}

clock::Tick TimeLooks::tick_of(Tid process, const shadow::SeenThread& seen,
                               double stands_for_s) {
  const GuestAddr at = seen.registers.pc();
  std::array<uint8_t, 2 + kLongestInstructionBytes> bytes{};
  ptrace::RemoteMemory memory(process);
  const size_t read = memory.read_some(at - 2, bytes);
  const std::span<const uint8_t> code = std::span<const uint8_t>(bytes).first(read);
  const CodeAround around{code.first(std::min<size_t>(2, read)),
                          code.subspan(std::min<size_t>(2, read))};
  account_.look_at_name(process, seen.thread);
  clock::Tick tick;
  tick.process = process;
  tick.thread = seen.thread;
  tick.user = at;
  tick.in_kernel = kernel_worked(seen.registers, around);
  tick.ns = static_cast<uint64_t>(1e9 * stands_for_s);
  return tick;
}

// All that was mapped is gone.
void TimeLooks::note_exec(Tid process) {
  account_.add({0, clock::Named{process, process, kernel::thread_name(process), true}});
  account_.read_maps(process);
}

// What is mapped is read again when it may be otherwise. Where that takes long, as there are tens
// of thousands of mappings, it is not done often, and later still for code that is known.
void TimeLooks::learn_code(Tid process, Watched& watched, double now,
                           const std::vector<shadow::SeenThread>& seen) {
  if (now < watched.maps_again_s) return;
  const auto pages = kernel::read_statm(process);
  const bool is_known = std::ranges::all_of(
      seen, [&](const auto& s) { return account_.knows(process, s.registers.pc()); });
  const uint64_t mapped = pages ? pages->mapped : 0;
  if (is_known && mapped == watched.mapped_pages) return;
  watched.mapped_pages = mapped;
  const auto begun = Clock::now();
  account_.read_maps(process);
  watched.maps_again_s = now + seconds_since(begun) / kMapsShare;
}

void TimeLooks::read_processor_time(Tid process, Watched& watched) {
  if (const auto used_s = processor_seconds_of(process)) watched.used.now_s = *used_s;
}

// Who has used little is left as the looks say: all of it may have come after the last one.
void TimeLooks::conclude(Tid process, Watched& watched) {
  if (watched.looks < std::min<uint64_t>(kEnoughLooks, watched.doubtful.size())) {
    for (const auto& [at_ns, tick] : watched.doubtful) account_.add({at_ns, tick});
  }
  const double enough_s = kEnoughRatio * moments_.period_s();
  for (const auto& [thread, used] : watched.threads) {
    if (used.seconds() >= enough_s) account_.scale_to(process, thread, used.seconds());
  }
  if (watched.used.seconds() >= enough_s) account_.scale_to(process, watched.used.seconds());
}

void TimeLooks::end(double now) {
  for (auto& [process, watched] : watched_) {
    read_processor_time(process, watched);
    take_seen(process, watched, now);
    conclude(process, watched);
  }
  if (!watched_.empty())
    detail("{} stops to look at threads, {} of which waited for a processor; one in {:.1f} ms",
           stops_, waiting_, 1e3 * moments_.period_s());
  watched_.clear();
  moments_.end();
}

double TimeLooks::take_cost() {
  return std::exchange(cost_s_, 0);
}

}  // namespace shadowprof::sample
