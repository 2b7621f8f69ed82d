// SPDX-License-Identifier: MIT
#include "shadow/engine_clock.h"

#include <time.h>

#include <algorithm>
#include <limits>

#include "base/limits.h"
#include "base/processor_time.h"
#include "kernel/proc.h"
#include "trace/record.h"

namespace shadowprof::shadow {
namespace {

// For the trace. The engine alone (bench/full_mode.py, profile "none") takes 0.15 to 1.3 ns more
// than the program itself for each, 0.4 ns in the median of six programs.
constexpr double kWord_s = 0.4e-9;
// In tight loops a word costs less, a tenth of a nanosecond, as the processor has slack there.
constexpr double kLeastBesideWordsShare = 0.5;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Where stops other than those for system calls take more than this share of the time of a replica
// that records, its code is new to the engine, and what is left of that time says nothing. What it
// has recorded does: of a word, what the program itself takes for its five instructions, roughly.
constexpr double kNewCodeShare = 0.5;
constexpr double kWordOfProgram_s = 2.5e-9;
// Deductions are estimates. What is left where loads were timed may really be a fiftieth.
constexpr double kLeastShare = 0.1;
constexpr double kLeastTimedShare = 0.02;

}  // namespace

ProcessorTime processor_time_of(Tid tid) {
  const kernel::ScheduleTimes times = kernel::schedule_times_of(tid);
  return {1e-9 * static_cast<double>(times.used), 1e-9 * static_cast<double>(times.waited)};
}

double replica_seconds(Tid replica) {
  if (const auto used = processor_seconds_of(replica)) return *used;
  return processor_time_of(replica).used;
}

EngineClock::Counts EngineClock::now() const {
  Counts counts;
  if (const auto stat = kernel::read_process_stat(replica_)) counts.faults = stat->minor_faults;
  if (const auto pages = kernel::read_statm(replica_)) counts.mapped = pages->of_files;
  return counts;
}

void EngineClock::start(Of of, Tid replica, const machine::FaultPrice& price, const Work& work) {
  of_ = of;
  replica_ = replica;
  work_before_ = work;
  price_ = price;
  used_before_ = replica_seconds(replica);
  before_ = now();
  started_ = Clock::now();
}

double EngineClock::since_start() const {
  return Seconds(Clock::now() - started_).count();
}

// How much of its trace is still in a buffer the replica alone knows; the first time that it fills
// one, a fault for each page tells. A native one stops at each system call, and nothing else tells
// how long it has executed: what is left beside the stops is never nothing.
double EngineClock::seconds(double used, const Work& work) const {
  const Counts counts = now();
  const uint64_t faults = std::max(counts.faults, before_.faults) - before_.faults;
  const uint64_t mapped =
      std::min(faults, std::max(counts.mapped, before_.mapped) - before_.mapped);
  const bool records = of_ == Of::recorded;
  const uint64_t drained = work.drained - work_before_.drained;
  const uint64_t recorded =
      records ? std::max(drained, mapped * limits::kPageBytes) / sizeof(trace::Word) : 0;
  used = seconds_at_most(used, work);
  const uint64_t stops = work.stops - work_before_.stops;
  const uint64_t calls = std::min(stops, work.calls - work_before_.calls);
  const double stopping = static_cast<double>(stops) * price_.stopped;
  const bool is_new = static_cast<double>(stops - calls) * price_.stopped > kNewCodeShare * used;
  if (records && is_new)
    return static_cast<double>(recorded) * kWordOfProgram_s;
  const double ours = static_cast<double>(faults - mapped) * price_.copied +
                      static_cast<double>(mapped) * price_.mapped + stopping;
  return without_words(std::max(used - ours, kLeastShare * used), recorded);
}

double EngineClock::without(double seconds, double ours) {
  return std::max(seconds - ours, kLeastTimedShare * seconds);
}

double EngineClock::without_words(double seconds, uint64_t words) {
  return std::max(seconds - static_cast<double>(words) * kWord_s, kLeastBesideWordsShare * seconds);
}

void Deadline::start(double seconds) {
  at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

double Deadline::seconds_until() const {
  if (!at_) return std::numeric_limits<double>::infinity();
  return Seconds(*at_ - Clock::now()).count();
}

}  // namespace shadowprof::shadow
