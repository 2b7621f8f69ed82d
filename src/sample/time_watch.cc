// SPDX-License-Identifier: MIT
#include "sample/time_watch.h"

#include <x86intrin.h>

#include <algorithm>
#include <utility>

#include "plan/plan_limits.h"
#include "sample/clock_windows.h"

namespace shadowprof::sample {

TimeWatch::TimeWatch(TimeFrom from, double max_overhead, uint64_t seed, ProgramAccess access) {
  const double budget_share = plan::kClockShare * max_overhead;
  if (from == TimeFrom::nowhere) {
    why_not_ = "--time off";
  } else if (from == TimeFrom::looks) {
    source_ = std::make_unique<TimeLooks>(budget_share, seed, std::move(access), account_);
  } else if (auto clock = ClockWindows::open(budget_share, seed, account_)) {
    source_ = std::move(*clock);
  } else {
    why_not_ = clock.error().message;
  }
}

void TimeWatch::begin(Tid process, double now) {
  if (!source_) return;
  const Status watched = source_->begin(process, now);
  account_.begin(process);
  if (!watched) why_not_ = watched.error().message;
  if (first_.value != 0) return;
  first_ = process;
  cycles_at_begin_ = __rdtsc();
}

void TimeWatch::look(double now) {
  if (source_) source_->look(now);
}

void TimeWatch::end(double now) {
  if (cycles_at_end_ == 0) cycles_at_end_ = __rdtsc();
  if (source_) source_->end(now);
}

void TimeWatch::set_max_overhead(double share) {
  if (source_) source_->set_budget(plan::kClockShare * share);
}

void TimeWatch::finish(double duration_s, double watched_cpu_s, profile::Profile& profile) {
  if (!source_ || first_.value == 0) return;
  end(duration_s);
  fill(duration_s, watched_cpu_s, cycles_at_end_, profile);
  source_.reset();
}

void TimeWatch::finish_copy(double duration_s, double watched_cpu_s, profile::Profile& profile) {
  if (source_ && first_.value != 0) fill(duration_s, watched_cpu_s, __rdtsc(), profile);
}

void TimeWatch::fill(double duration_s, double watched_cpu_s, uint64_t cycles_at_end,
                     profile::Profile& profile) {
  profile::ProcessorTime& time = profile.time;
  time.source = source_->name();
  time.sees_kernel = source_->sees_kernel();
  time.ticks = source_->has_equal_ticks() ? account_.ticks() : account_.equal_ticks();
  time.lost = source_->lost();
  account_.finish(profile);
  double first_thread_s = 0;
  for (const profile::ThreadRow& thread : profile.threads) {
    time.user_s += 1e-9 * static_cast<double>(thread.user_ns);
    time.kernel_s += 1e-9 * static_cast<double>(thread.kernel_ns);
    if (thread.tid == first_.value)
      first_thread_s = 1e-9 * static_cast<double>(thread.user_ns + thread.kernel_ns);
  }
  if (!time.sees_kernel) {
    time.kernel_s = std::max(0.0, watched_cpu_s - time.user_s);
    first_thread_s = std::max(first_thread_s, source_->schedule().first_share() * watched_cpu_s);
  }
  time.waiting_s = std::max(0.0, duration_s - first_thread_s);
  time.queued_s = std::min(time.waiting_s, source_->schedule().first_waited_s());
  time.others_queued_s = source_->schedule().others_waited_s();
  if (duration_s > 0)
    time.cycles_per_s = static_cast<double>(cycles_at_end - cycles_at_begin_) / duration_s;
}

}  // namespace shadowprof::sample
