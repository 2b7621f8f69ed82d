// SPDX-License-Identifier: MIT
//
// What a replica does when it has given a sample, or has rested.
#include <algorithm>
#include <utility>

#include "plan/plan.h"

namespace shadowprof::plan {
namespace {

// Behind so long its caches are warm for as long again, which tells how fast the program is.
constexpr double kWarmBetween_s = 0.015;
constexpr double kWarmEvery_s = 1;
static_assert(kLeastBetween_s < kWarmBetween_s && kWarmBetween_s < kLongestBetween_s);

}  // namespace

double Plan::lost_in_caches_s(double worked_s, double executed_s, double copied_pages,
                              const Prices& prices) const {
  if (!present_.is_cheap) return prices.beyond_cache_share * executed_s;
  const double for_pages =
      prices.most_cache_share * std::min(1.0, copied_pages / prices.most_cache_pages);
  return prices.cache_share * worked_s + for_pages * executed_s;
}

bool Plan::may_last(const Situation& s, const Prices& prices) const {
  return s.can_be_followed && wishes_.load >= 1 &&
         prices.busy_core_share <= kBusyCoreShare * wishes_.max_overhead_share;
}

bool Plan::is_too_dear(double cost_s, double pause_s, double unspent_s, bool lasts) const {
  const double always_s = std::max(pause_s, second_s());
  return cost_s > std::max(always_s, lasts ? unspent_s : kForksShare * unspent_s);
}

void Plan::look_at(const IdleReplica& replica) {
  if (!std::exchange(present_.works, false)) return;
  present_.pause_s = replica.pause_s;
  present_.worked_s = replica.age_s - present_.went_on_age_s;
  present_.executed_meanwhile_s =
      replica.executed_s - std::exchange(present_.executed_s, replica.executed_s);
  present_.stopped_age_s = replica.age_s;
  const double recording_s =
      replica.recorded_s - std::exchange(present_.recorded_s, replica.recorded_s);
  if (recording_s <= 0) return;
  later_samples_++;
  const double lost_s = present_.worked_s - present_.executed_meanwhile_s;
  recording_s_ +=
      (recording_s - recording_s_) / static_cast<double>(std::min(later_samples_, kRemembered));
  lost_s_ += (lost_s - lost_s_) / static_cast<double>(std::min(later_samples_, kRememberedLosses));
}

// After so much of the program's time kForksShare of the budget has paid for it. While the program
// waits, a replica does not fall behind.
double Plan::earned_after_s(double price_s, const Situation& s) const {
  const double busy_share = s.now_s > 0 ? std::min(1.0, s.used_s / s.now_s) : 1;
  return busy_share * price_s / (kForksShare * wishes_.max_overhead_share);
}

// Another replica costs less than to keep up with the program.
bool Plan::forks_are_cheap(const Situation& s, const Prices& prices) const {
  const double price_s =
      prices.page_table_entry_s * s.resident_pages + prices.page_copied_s * s.written_pages;
  return may_last(s, prices) &&
         earned_after_s(price_s, s) < std::max(kLongestGap_s, kCheapWithinShare * s.used_s);
}

bool Plan::is_to_be_replaced(const Situation& s, const Ledger& ledger, const Prices& prices) const {
  const bool cheap = present_.is_cheap;
  // It may write to all of its pages.
  const double pages = cheap ? s.written_pages : s.resident_pages;
  const double price_s =
      prices.page_table_entry_s * s.resident_pages + prices.page_copied_s * pages;
  const double most_behind_s =
      std::max(kLeastBehind_s, cheap ? earned_after_s(price_s, s) : kBehindShare * s.used_s);
  const double left_s = ledger.unspent_s(s.now_s) - s.idle->cost_s;
  return s.idle->behind_s() > most_behind_s && price_s < kForksShare * left_s;
}

double Plan::between_s(const Situation& s, const Prices& prices) const {
  if (would_rest(s.shared_core_share)) return kLeastBetween_s;
  double between_s = kBetweenShare * recording_s_;
  if (may_last(s, prices)) {
    between_s = present_.is_cheap ? recording_s_ : lost_s_ / kMayLoseShare;
  }
  return std::clamp(between_s, kLeastBetween_s, kLongestBetween_s);
}

// Until what it took of the program by working is paid for.
double Plan::rests_until_s(const Situation& s, const Prices& prices, Why& why) const {
  if (!may_last(s, prices)) return 0;
  const double share = wishes_.max_overhead_share;
  const double stopped_at_s = s.now_s - s.idle->age_s + present_.stopped_age_s;
  const double began_at_s = stopped_at_s - present_.worked_s;
  if (would_rest(s.shared_core_share)) {
    why = Why::shares_core;
    const double loss_s = present_.worked_s * s.shared_core_share;
    return std::min(began_at_s + loss_s / (kBusyCoreShare * share), s.now_s + kLongestBetween_s);
  }
  why = Why::spares_cache;
  const double loss_s = lost_in_caches_s(present_.worked_s, present_.executed_meanwhile_s,
                                         s.idle->copied_pages, prices);
  const double paying_share = share * (present_.is_cheap ? 1 - kForksShare : kSamplesShare);
  return std::min(began_at_s + loss_s / paying_share, s.now_s + kLeastBehind_s);
}

Step Plan::of_replica(const Situation& s, const Ledger& ledger, const Prices& prices) {
  const IdleReplica& idle = *s.idle;
  present_.is_cheap = forks_are_cheap(s, prices);
  look_at(idle);
  const bool lasts = may_last(s, prices);
  Step step{.what = What::end};
  if (idle.is_obsolete || !s.may_give_later_samples) {
    step.why = idle.is_obsolete ? Why::obsolete : Why::lived_enough;
    return step;
  }
  present_.cost_s = idle.cost_s;
  present_.lags = lasts && idle.behind_s() > std::max(kLongestGap_s, kLagsShare * s.used_s);
  bool ends = true;
  const double stands_for_s = (idle.pause_s + idle.cost_s) / ledger.share();
  if (is_too_dear(idle.cost_s, idle.pause_s, ledger.unspent_s(s.now_s), lasts)) {
    step.why = Why::too_dear;
  } else if (!lasts && idle.age_s > std::min(kLongestGap_s, wishes_.load * stands_for_s)) {
    step.why = Why::lived_enough;
  } else if (lasts && is_to_be_replaced(s, ledger, prices)) {
    step.why = Why::far_behind;
    in_its_place_ = !present_.is_cheap;
  } else if (present_.lags && idle.behind_s() > kLostTrack_s) {
    step.why = Why::lost_track;
  } else {
    ends = false;
  }
  Why rests = Why::busy_core;
  const double rest_s = ends ? s.measures_contention_at_s : rests_until_s(s, prices, rests);
  if (rest_s > s.now_s) return {.what = What::rest, .why = rests, .at_s = rest_s};
  if (ends) return step;
  step.what = What::go_on;
  step.why = present_.lags       ? Why::lags
             : present_.is_cheap ? Why::cheap_forks
             : lasts             ? Why::follows
                                 : Why::short_life;
  step.native_s = between_s(s, prices) * jitter(random_);
  step.warms_up = lasts && step.native_s < kWarmBetween_s && s.now_s >= warm_at_s_;
  if (step.warms_up) {
    step.native_s = kWarmBetween_s;
    warm_at_s_ = s.now_s + kWarmEvery_s * jitter(random_);
  }
  step.length_s = (present_.is_cheap ? kSampleOfCheapFork_s : kSample_s) * jitter(random_);
  present_.works = true;
  present_.went_on_age_s = idle.age_s;
  if (!present_.lags) seen_used_s_ = s.used_s;
  return step;
}

}  // namespace shadowprof::plan
