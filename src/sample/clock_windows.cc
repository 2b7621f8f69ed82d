// SPDX-License-Identifier: MIT
#include "sample/clock_windows.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "plan/jitter.h"

namespace shadowprof::sample {
namespace {

// In processor time, where the budget pays for it; and where switches take most of the budget.
constexpr double kShortestPeriod_s = 0.005;
constexpr double kShortestAtSwitches_s = 0.001;
// A period is not changed for less.
constexpr double kLeastChangeShare = 0.25;
// What ticks and windows may take of the clock's part of the budget; the rest is for switches.
constexpr double kTicksShare = 0.9;
// How often threads switch is looked at so soon after the beginning, and then so rarely.
constexpr double kFirstSwitches_s = 0.05;
constexpr double kSwitchesEvery_s = 1;
// Assumed: an interrupt in a virtual machine, where 11 to 25 us were measured (docs/time.md), one
// that begins or ends a window (15), a timer set and stopped there, and a switch while threads have
// events that are paused (0.6).
constexpr double kTick_s = 20e-6;
constexpr double kInterrupt_s = 15e-6;
constexpr double kClockSwitch_s = 2e-6;
constexpr double kPausedSwitch_s = 0.7e-6;
// To the period, in the mean. A window of many ticks has them at even distances, one of few costs
// too much.
constexpr double kWindowRatio = 4;
constexpr double kPauseRatio = 0.5;
constexpr double kMostOnShare = kWindowRatio / (kWindowRatio + kPauseRatio);
constexpr double kLeastOnShare = 0.01;
// What windows take us, of a processor's time: with many threads they are long.
constexpr double kOurShare = 0.01;

constexpr double kPeriodCost_s = kMostOnShare * (kTick_s + 2 * kInterrupt_s / kWindowRatio);

std::chrono::nanoseconds period_for(double budget_share) {
  const double period_s = std::max(kShortestPeriod_s, kPeriodCost_s / (kTicksShare * budget_share));
  return std::chrono::nanoseconds(static_cast<int64_t>(1e9 * period_s));
}

double seconds(std::chrono::nanoseconds period) {
  return std::chrono::duration<double>(period).count();
}

}  // namespace

Result<std::unique_ptr<ClockWindows>> ClockWindows::open(double budget_share, uint64_t seed,
                                                         clock::TimeAccount& account) {
  SP_ASSIGN(clock::CpuClock clock, clock::CpuClock::open(period_for(budget_share)));
  return std::unique_ptr<ClockWindows>(
      new ClockWindows(std::move(clock), budget_share, seed, account));
}

ClockWindows::ClockWindows(clock::CpuClock clock, double budget_share, uint64_t seed,
                           clock::TimeAccount& account)
    : budget_share_(budget_share),
      random_(seed),
      clock_(std::move(clock)),
      account_(account),
      longest_period_(clock_.period()),
      on_share_(kMostOnShare) {}

Status ClockWindows::begin(Tid process, double now) {
  const Status watched = clock_.watch(process);
  switches_.begin(process);
  if (std::exchange(has_begun_, true)) return watched;
  window_began_s_ = last_window_end_s_ = switches_looked_s_ = now;
  schedule_.begin(process);
  if (clock_.whose() == clock::EventsOf::threads) (void)switches_.look(random_);
  weighs_s_ = now + kFirstSwitches_s;
  next_s_ = now + window_s() * plan::jitter(random_);
  return watched;
}

double ClockWindows::window_s() const {
  return std::max(kWindowRatio * seconds(clock_.period()), 2 * switch_s_ / kOurShare);
}

void ClockWindows::take() {
  for (const clock::ClockEvent& event : clock_.drain()) account_.add(event);
  if (clock_.lost() != std::exchange(lost_, clock_.lost())) account_.read_all_maps();
  leave_ended();
  const uint64_t ticks = account_.ticks();
  cost_s_ += kTick_s * static_cast<double>(ticks - std::exchange(ticks_charged_, ticks));
}

void ClockWindows::leave_ended() {
  for (const Tid process : std::exchange(ended_, {})) {
    clock_.forget(process);
    switches_.forget(process);
  }
}

void ClockWindows::look(double now) {
  if (now < next_s_) return;
  if (now >= weighs_s_) weigh_switches(now);
  if (clock_.is_paused())
    begin_window(now);
  else
    end_window(now);
}

void ClockWindows::weigh_switches(double now) {
  weighs_s_ = now + kSwitchesEvery_s;
  const double passed_s = now - std::exchange(switches_looked_s_, now);
  schedule_.look();
  if (clock_.whose() == clock::EventsOf::processors) return;
  const double switches = switches_.look(random_);
  const double each_s = kClockSwitch_s * on_share_ + kPausedSwitch_s * (1 - on_share_);
  cost_s_ += each_s * switches;
  const double per_s = switches / passed_s;
  set_period(per_s);
  const double on_cost_share =
      kPeriodCost_s / kMostOnShare / seconds(clock_.period()) + kClockSwitch_s * per_s;
  on_share_ = std::clamp(budget_share_ / on_cost_share, kLeastOnShare, kMostOnShare);
}

void ClockWindows::set_period(double switches_per_s) {
  const double longest_s = seconds(longest_period_);
  const double alike_s = kTick_s / (kClockSwitch_s * std::max(switches_per_s, 1.0));
  const double period_s =
      std::clamp(alike_s, std::min(kShortestAtSwitches_s, longest_s), longest_s);
  const double now_s = seconds(clock_.period());
  if (std::abs(period_s - now_s) < kLeastChangeShare * now_s) return;
  const std::chrono::duration<double> period(period_s);
  has_equal_ticks_ = false;
  (void)clock_.set_period(std::chrono::duration_cast<std::chrono::nanoseconds>(period));
}

void ClockWindows::begin_window(double now) {
  clock_.go_on();
  cost_s_ += kInterrupt_s;
  window_began_s_ = now;
  next_s_ = now + window_s() * plan::jitter(random_);
}

// The pause's length is anything from nothing to twice the mean: it moves the next ticks by any
// part of a period.
void ClockWindows::end_window(double now) {
  const auto begun = std::chrono::steady_clock::now();
  clock_.pause();
  switch_s_ = seconds(std::chrono::steady_clock::now() - begun);
  cost_s_ += kInterrupt_s;
  const double stands_for_s = now - std::exchange(last_window_end_s_, now);
  const double lasted_s = now - window_began_s_;
  account_.weigh(lasted_s > 0 ? std::clamp(stands_for_s / lasted_s, 1.0, 2 / on_share_) : 1.0);
  take();
  const double pause_s = window_s() * (1 / on_share_ - 1);
  next_s_ = now + std::uniform_real_distribution<double>(0, 2 * pause_s)(random_);
}

void ClockWindows::end(double now) {
  schedule_.look();
  if (!clock_.is_paused()) end_window(now);
  next_s_ = std::numeric_limits<double>::infinity();
}

double ClockWindows::take_cost() {
  return std::exchange(cost_s_, 0);
}

}  // namespace shadowprof::sample
