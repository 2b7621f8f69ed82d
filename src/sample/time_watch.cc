// SPDX-License-Identifier: MIT
#include "sample/time_watch.h"

#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernel/proc.h"
#include "plan/jitter.h"
#include "plan/limits.h"

namespace shadowprof::sample {
namespace {

// 199 a second, in processor time: no multiple of what kernels and programs do periodically. Twenty
// seconds give 4,000 ticks, and a share of one half is known to 1.6 points.
constexpr std::chrono::nanoseconds kPeriod{5'025'126};
constexpr double kLookEvery_s = 0.5;
// How often threads switch is looked at so soon after the beginning, and then so rarely.
constexpr double kFirstSwitches_s = 0.05;
constexpr double kSwitchesEvery_s = 1;
// Assumed: an interrupt in a virtual machine, and a timer set and stopped there.
constexpr double kTick_s = 5e-6;
constexpr double kSwitch_s = 0.5e-6;
// Windows are long beside the period of the clock, or few of them would have a tick.
constexpr double kWindow_s = 0.025;
constexpr double kLeastOn_share = 0.01;

}  // namespace

TimeWatch::TimeWatch(double max_overhead, uint64_t seed)
    : budget_share_(plan::kClockShare * max_overhead), random_(seed) {
  auto clock = clock::CpuClock::open(kPeriod);
  if (clock)
    clock_.emplace(std::move(*clock));
  else
    why_not_ = clock.error().message;
}

void TimeWatch::begin(Tid process, double now) {
  if (!clock_) return;
  if (const Status watched = clock_->watch(process); !watched) why_not_ = watched.error().message;
  account_.begin(process);
  if (first_.value != 0) return;
  first_ = process;
  cycles_at_begin_ = __rdtsc();
  begun_s_ = last_window_end_s_ = switches_looked_s_ = now;
  const auto times = kernel::read_schedstat(first_);
  if (times) switches_ = times->runs;
  weighs_s_ = next_s_ = now + kFirstSwitches_s;
}

void TimeWatch::take(bool all) {
  for (const clock::ClockEvent& event : all ? clock_->drain_all() : clock_->drain())
    account_.add(event);
  const uint64_t ticks = account_.ticks();
  cost_s_ += kTick_s * static_cast<double>(ticks - std::exchange(ticks_charged_, ticks));
}

void TimeWatch::look(double now) {
  if (!clock_ || now < next_s_) return;
  if (clock_->is_paused()) {
    begin_window(now);
  } else if (on_share_ < 1) {
    end_window(now);
  } else {
    take(false);
    next_s_ = now + kLookEvery_s;
  }
  if (now >= weighs_s_) weigh_switches(now);
}

// Looks at the first thread alone: one thread that switches often is what a server is made of, and
// to look at hundreds costs more than it says.
void TimeWatch::weigh_switches(double now) {
  weighs_s_ = now + kSwitchesEvery_s;
  const auto times = kernel::read_schedstat(first_);
  if (!times) return;
  const double seconds = now - std::exchange(switches_looked_s_, now);
  const uint64_t switches =
      times->runs - std::min(times->runs, std::exchange(switches_, times->runs));
  const double per_s = static_cast<double>(switches) / seconds;
  const double ticks_per_s = 1 / std::chrono::duration<double>(kPeriod).count();
  const double cost_share = kTick_s * ticks_per_s + kSwitch_s * per_s;
  cost_s_ += kSwitch_s * per_s * seconds * on_share_;
  on_share_ = std::clamp(budget_share_ / cost_share, kLeastOn_share, 1.0);
  if (on_share_ < 1 && !clock_->is_paused()) next_s_ = std::min(next_s_, now + kWindow_s);
}

void TimeWatch::begin_window(double now) {
  clock_->go_on();
  window_began_s_ = now;
  next_s_ = now + kWindow_s * plan::jitter(random_);
}

void TimeWatch::end_window(double now) {
  clock_->pause();
  const double stands_for_s = now - std::exchange(last_window_end_s_, now);
  const double lasted_s = now - std::max(window_began_s_, begun_s_);
  account_.weigh(lasted_s > 0 ? std::max(1.0, stands_for_s / lasted_s) : 1.0);
  take(true);
  account_.weigh(1);
  next_s_ = now + kWindow_s * plan::jitter(random_) * (1 / on_share_ - 1);
}

double TimeWatch::take_cost() {
  return std::exchange(cost_s_, 0);
}

void TimeWatch::finish(double duration_s, double program_cpu_s, profile::Profile& profile) {
  if (!clock_ || first_.value == 0) return;
  take(true);
  const uint64_t cycles = __rdtsc() - cycles_at_begin_;
  const uint64_t lost = clock_->lost();
  profile::ProcessorTime& time = profile.time;
  time.source = "cpu-clock";
  time.sees_kernel = clock_->sees_kernel();
  time.ticks = account_.ticks();
  time.lost = lost;
  account_.finish(profile);
  double first_thread_s = 0;
  for (const profile::ThreadRow& thread : profile.threads) {
    time.user_s += 1e-9 * static_cast<double>(thread.user_ns);
    time.kernel_s += 1e-9 * static_cast<double>(thread.kernel_ns);
    if (thread.tid == first_.value)
      first_thread_s = 1e-9 * static_cast<double>(thread.user_ns + thread.kernel_ns);
  }
  if (!time.sees_kernel) time.kernel_s = std::max(0.0, program_cpu_s - time.user_s);
  time.waiting_s = std::max(0.0, duration_s - first_thread_s);
  if (duration_s > 0) time.cycles_per_s = static_cast<double>(cycles) / duration_s;
  clock_.reset();
}

}  // namespace shadowprof::sample
