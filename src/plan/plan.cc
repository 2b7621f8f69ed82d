// SPDX-License-Identifier: MIT
#include "plan/plan.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace shadowprof::plan {
namespace {

constexpr double kNever_s = std::numeric_limits<double>::infinity();
constexpr double kHalfShare = 0.5;
constexpr double kLeastPrice_s = 1e-9;
constexpr double kLeastVariance = 1e-6;

// Where one kind is not known it is as the other. Samples that are all alike have none.
double fork_variance(const Situation& s) {
  return std::max(kLeastVariance, s.fork_variance.value_or(s.burst_variance.value_or(1)));
}
double burst_variance(const Situation& s) {
  return std::max(kLeastVariance, s.burst_variance.value_or(s.fork_variance.value_or(1)));
}

}  // namespace

const std::array<Rule, 10> kRules = {{
    {Why::follows,
     "When a sample comes, and how long it is, does not depend on what the replica does: of code "
     "that is slow to record there would be too little or too much."},
    {Why::short_life,
     "A replica lasts only if it can follow all that the program does, one thread of one process: "
     "of several it would show one."},
    {Why::busy_core,
     "A replica lasts only beside an idle core that costs the program little: what a busy core "
     "takes grows with its lifetime. Where nobody knows yet it waits, as a later fork may be too "
     "dear."},
    {Why::spares_cache,
     "A replica works for so much of the time that what the program loses in the caches that both "
     "use is within its part of the budget. Nobody can measure that in a run, so it is assumed."},
    {Why::shares_core, "On the program's own core a replica rests until what it took is paid for."},
    {Why::too_dear,
     "No replica costs more than its fork, a second's budget, or what is left of all."},
    {Why::lags,
     "A replica that is far behind, and that nothing can pay another one for, goes on: its samples "
     "are right for where it is, and each says a hundred times as much as a burst. What the "
     "program does now is for bursts, for which nothing is lent then."},
    {Why::lost_track, "So far behind that what it sees is long over, it ends."},
    {Why::obsolete,
     "A replica of a program that is no more, without a core or memory for it, ends."},
    {Why::replicas_run,
     "Bursts and peeks wait while a replica lives that is not far behind: it shows what they "
     "would."},
}};

void Plan::set_max_overhead(double share) {
  wishes_.max_overhead_share = share;
  lengths_.set_max_overhead(share);
}

Plan::Plan(const Wishes& wishes)
    : wishes_(wishes),
      random_(wishes.seed),
      lengths_(wishes.max_overhead_share, wishes.load),
      forks_from_s_(wishes.delay_s),
      bursts_from_s_(wishes.delay_s),
      peeks_at_s_(wishes.delay_s + kSoon_s) {
  fork_jitter_ = jitter(random_);
  burst_jitter_ = jitter(random_);
}

double expected_fork_s(const Situation& s, const Prices& prices) {
  return prices.page_table_entry_s * s.resident_pages + prices.page_kept_s * s.written_pages;
}

// What later ones take, those before them tell.
bool Plan::first_takes_programs_core(const Situation& s) const {
  return forks_ == 0 && found_no_core_ && !s.core_is_idle && s.may_burst &&
         wishes_.frequency_hz <= 0;
}

double Plan::likely_fork_s(const Situation& s, const Prices& prices) const {
  const double least_s = prices.pause_s + prices.page_table_entry_s * s.resident_pages +
                         (first_takes_programs_core(s) ? prices.first_replica_s : 0);
  return std::max({least_s, fork_.mean_s, fork_.last_s});
}

double Plan::dearest_fork_s(const Situation& s, const Prices& prices) const {
  return std::max({expected_fork_s(s, prices), fork_.mean_s, prices.pause_s});
}

bool Plan::forks_are_dear(const Situation& s, const Prices& prices) const {
  return dearest_fork_s(s, prices) > second_s();
}

double Plan::burst_price_s(const Prices& prices) const {
  return burst_.steps == 0 ? prices.burst_s : std::max(burst_.mean_s, burst_.last_s);
}

void Plan::Price::paid(double seconds) {
  steps++;
  last_s = seconds;
  mean_s += (seconds - mean_s) / static_cast<double>(std::min(steps, kRemembered));
}

// Counted when it is taken, and a wait or a rest when its reason is another one than before.
Step Plan::chosen(Step step) {
  const bool is_passive = step.what == What::wait || step.what == What::rest;
  if (!is_passive || step.why != last_why_) counts_[static_cast<size_t>(step.why)]++;
  last_why_ = step.why;
  return step;
}

Step Plan::next(const Situation& s, const Ledger& ledger, const Prices& prices) {
  if (s.idle) return chosen(of_replica(s, ledger, prices));
  const std::array<Offer, 3> offers = {fork_offer(s, ledger, prices),
                                       burst_offer(s, ledger, prices), peek_offer(s)};
  double at_s = kNever_s;
  double due_price_s = 0;
  for (const Offer& offer : offers) {
    at_s = std::min(at_s, offer.at_s);
    if (offer.at_s <= s.now_s) due_price_s += offer.price_s;
  }
  // Where all that is due is paid for, what counts is the gain: the program may sleep soon.
  const bool all_are_paid = due_price_s <= ledger.unspent_s(s.now_s);
  const Offer* best = nullptr;
  double best_value = 0;
  for (const Offer& offer : offers) {
    const double value =
        all_are_paid ? offer.gain : offer.gain / std::max(offer.price_s, kLeastPrice_s);
    if (offer.at_s > s.now_s || (best && value <= best_value)) continue;
    best = &offer;
    best_value = value;
  }
  if (best && best->step.what == What::fork) {
    if (waits_for_core(s))
      return chosen({.what = What::wait, .why = Why::no_idle_core, .at_s = looks_for_core_at_s_});
    const bool knew = std::exchange(found_no_core_, !s.core_is_idle);
    if (!knew && first_takes_programs_core(s)) return next(s, ledger, prices);
  }
  if (best) {
    Step step = best->step;
    if (step.what == What::fork) step.length_s = lengths_.next_s(s.now_s, forks_);
    return chosen(step);
  }
  Step step{.what = What::wait, .why = Why::budget_spent, .at_s = at_s};
  if (s.replicas != 0 && s.replicas >= s.most_replicas) step.why = Why::replicas_run;
  if (misses_ != 0) step.why = Why::tries_again;
  return chosen(step);
}

// A fork is due: another moment may have an idle core.
bool Plan::waits_for_core(const Situation& s) {
  if (!s.core_is_idle) {
    if (s.now_s < looks_for_core_at_s_) return true;
    looks_for_core_at_s_ = s.now_s + kBetweenLooksForCore_s;
    if (++looks_for_core_ < kLooksForCore) return true;
  }
  looks_for_core_ = 0;
  return false;
}

Plan::Offer Plan::fork_offer(const Situation& s, const Ledger& ledger, const Prices& prices) const {
  Offer offer{.step = {.what = What::fork, .why = Why::best_bargain}, .at_s = kNever_s};
  if (!s.may_fork || s.replicas >= s.most_replicas) return offer;
  // Memory tells what a fork costs at least, and at worst; those that were made tell what it is
  // likely to cost. The worst is lent, if need be.
  const double price_s = likely_fork_s(s, prices);
  const bool are_dear = forks_ != 0 && !in_its_place_ && forks_are_dear(s, prices);
  const bool is_second = are_dear && knows_only_start_up();
  const double at_s = is_second ? second_fork_at_s(ledger, price_s) : fork_at_s(s, ledger, price_s);
  const bool is_harmless = is_second && s.writes_same_pages;
  const double worst_s = is_harmless ? price_s : expected_fork_s(s, prices);
  offer.at_s = std::max({at_s, retries_at_s_, ledger.lends_at_s(worst_s)});
  if (s.may_burst && are_dear && !is_second) {
    offer.at_s = std::max(offer.at_s, dear_fork_at_s(s, ledger, prices));
  }
  offer.price_s = price_s;
  offer.gain = observations(s, prices, offer.price_s) / fork_variance(s);
  if (forks_ == 0) offer.step.why = Why::first;
  if (in_its_place_) offer.step.why = Why::in_its_place;
  if (wishes_.frequency_hz > 0) offer.step.why = Why::asked_for;
  return offer;
}

// A replica that lasts gives them until another one is paid for; all of another are of one moment,
// and so are those of one that will soon be too dear, as the program writes to too many pages.
double Plan::observations(const Situation& s, const Prices& prices, double price_s) const {
  const double copied_s = prices.page_copied_s * s.written_pages;
  if (!may_last(s, prices) || copied_s > second_s()) return 1;
  return std::max(kLeastBehind_s, earned_after_s(price_s, s)) / kObservation_s;
}

// There are no bursts while a replica lasts, so its own part of the budget has to pay for it; else
// nothing is lent.
double Plan::dear_fork_at_s(const Situation& s, const Ledger& ledger, const Prices& prices) const {
  if (!may_last(s, prices)) return ledger.pays_at_s(dearest_fork_s(s, prices));
  const double share = kSamplesShare * fork_part(s, ledger, prices) * ledger.share();
  return share > 0 ? forks_from_s_ + likely_fork_s(s, prices) / share : kNever_s;
}

// What one fork has cost says little of the next one then.
bool Plan::knows_only_start_up() const {
  return forks_ == 1 && living_ == 0 && wishes_.frequency_hz <= 0 &&
         first_fork_s_ < wishes_.delay_s + kStartUp_s;
}

// Both may spend as much as one that the loan is for.
double Plan::second_fork_at_s(const Ledger& ledger, double price_s) const {
  const double paid_s = ledger.pays_at_s(price_s) - wishes_.delay_s;
  return std::max({forks_from_s_ + kLongestRetry_s * fork_jitter_, ledger.lends_at_s(price_s),
                   wishes_.delay_s + paid_s / (2 * kMostOfBudgetRatio)});
}

// The next fork is expected to cost what the last ones did, and so are those that live.
double Plan::fork_at_s(const Situation& s, const Ledger& ledger, double price_s) const {
  if (forks_ == 0) {
    const double first_s = kFirstFork_s * fork_jitter_;
    if (!first_takes_programs_core(s)) return wishes_.delay_s + first_s;
    const double paid_s = ledger.pays_at_s(price_s) - wishes_.delay_s;
    return wishes_.delay_s + std::max(first_s, paid_s / kMostOfBudgetRatio);
  }
  // Nothing is known of what one costs before the first has ended.
  if (forks_ == living_) return forks_from_s_ + kLongestRetry_s;
  // Nor where the program is another one by now: then the budget is borrowed from, as at first.
  if (!s.resembles_last_fork && living_ == 0) {
    const double paid_s = ledger.pays_at_s(price_s) - wishes_.delay_s;
    return std::max(forks_from_s_ + kLongestRetry_s, wishes_.delay_s + paid_s / kMostOfBudgetRatio);
  }
  if (in_its_place_ && wishes_.frequency_hz <= 0) {
    return std::max(forks_from_s_, ledger.pays_at_s(0));
  }
  const double lifetime_s = lifetimes_s_ / static_cast<double>(forks_ - living_);
  const auto unfinished = static_cast<double>(s.replicas + 1);
  const double loaded_s =
      wishes_.delay_s + (lifetimes_s_ + unfinished * lifetime_s) / wishes_.load - lifetime_s;
  double at_s = std::max(ledger.pays_at_s(unfinished * price_s), loaded_s);
  if (wishes_.frequency_hz > 0) at_s = std::max(at_s, forks_from_s_ + 1 / wishes_.frequency_hz);
  // What has been saved is not spent at once.
  if (patience_ > 1) {
    const double pace_s = std::max(price_s / ledger.share(), lifetime_s / wishes_.load);
    at_s = std::max(at_s, forks_from_s_ + patience_ * pace_s - lifetime_s);
  }
  return forks_from_s_ + std::max(at_s - forks_from_s_, kSample_s) * fork_jitter_;
}

// What bursts get of what forks and bursts cost together.
double Plan::burst_share(const Situation& s, double fork_price_s, double burst_price_s) const {
  if (!s.may_fork || s.most_replicas == 0) return 1;
  if (!s.burst_variance) return kHalfShare;
  const bool are_forks_rare = !s.fork_variance && burst_.steps > kRemembered;
  if (are_forks_rare) return 1 - kLeastKindShare;
  if (!s.fork_variance) return kHalfShare;
  const double fork_gain = 1 / (fork_variance(s) * std::max(fork_price_s, kLeastPrice_s));
  const double burst_gain = 1 / (burst_variance(s) * std::max(burst_price_s, kLeastPrice_s));
  return std::clamp(burst_gain / (fork_gain + burst_gain), kLeastKindShare, 1 - kLeastKindShare);
}

// What forks get of it; nothing where that would not have paid for one in all the time up to now.
double Plan::fork_part(const Situation& s, const Ledger& ledger, const Prices& prices) const {
  const double fork_s = dearest_fork_s(s, prices);
  const double part = 1 - burst_share(s, fork_s, burst_price_s(prices));
  const double earned_s = kSamplesShare * part * ledger.share() * (s.now_s - wishes_.delay_s);
  return forks_ != 0 && earned_s < fork_s && forks_are_dear(s, prices) ? 0 : part;
}

Plan::Offer Plan::burst_offer(const Situation& s, const Ledger& ledger,
                              const Prices& prices) const {
  Offer offer{.step = {.what = What::burst, .why = Why::better_bargain}, .at_s = kNever_s};
  const bool beside_replica = s.replicas != 0;
  if (!s.may_burst || (beside_replica && !present_.lags)) return offer;
  const double price_s = burst_price_s(prices);
  const double expected_s = expected_fork_s(s, prices);
  // The first replica comes first, if it may.
  const bool can_fork = s.may_fork && s.most_replicas != 0 && !first_takes_programs_core(s);
  if (forks_ == 0 && can_fork && ledger.lends_at_s(expected_s) <= s.now_s + kObservation_s) {
    return offer;
  }
  // In burst mode nothing is saved for forks, nor lent.
  const bool fills_gaps = s.most_replicas != 0;
  const double share =
      ledger.share() * (fills_gaps ? kSamplesShare * (1 - fork_part(s, ledger, prices)) : 1);
  const double pace_s = std::max(price_s / share, fills_gaps ? kObservation_s : 0.0);
  const double first_s = bursts_from_s_ + kFirstFork_s * burst_jitter_;
  const double paced_s = bursts_from_s_ + pace_s * burst_jitter_;
  // Forks wait until bursts are paid for, and bursts need not wait for forks.
  const double lent_s = fills_gaps          ? ledger.lends_at_s(price_s)
                        : burst_.steps == 0 ? 0
                                            : ledger.pays_at_s(price_s);
  offer.at_s = std::max(burst_.steps == 0 && forks_ == 0 ? first_s : paced_s, lent_s);
  if (wishes_.frequency_hz > 0 && burst_.steps != 0) {
    const double asked_s = bursts_from_s_ + burst_jitter_ / wishes_.frequency_hz;
    offer.at_s = std::max(offer.at_s, asked_s);
    offer.step.why = Why::asked_for;
  }
  if (ledger.lends_at_s(expected_s) > s.now_s) offer.step.why = Why::fork_too_dear;
  if (!s.may_fork) offer.step.why = Why::no_fork;
  // Below 0 where what was seen has ended, and this is another program's time.
  const double unseen_s = std::max(0.0, s.used_s - seen_used_s_);
  if (unseen_s >= kLongestGap_s && wishes_.frequency_hz <= 0) {
    // While a surprise is paid off, more than the loan, bursts go on for what is always theirs.
    const double always_s = bursts_from_s_ + price_s / (kLeastKindShare * ledger.share());
    offer.at_s = std::min({offer.at_s, std::max(bursts_from_s_, lent_s), always_s});
    offer.step.why = Why::long_unseen;
  }
  if (beside_replica) offer.at_s = std::max(paced_s, ledger.pays_at_s(price_s + present_.cost_s));
  offer.at_s = std::max(offer.at_s, retries_at_s_);
  const double observations = fills_gaps ? std::min(1.0, unseen_s / kObservation_s) : 1;
  offer.price_s = price_s;
  offer.gain = observations / burst_variance(s);
  return offer;
}

Plan::Offer Plan::peek_offer(const Situation& s) const {
  Offer offer{.step = {.what = What::peek, .why = Why::new_code}, .at_s = kNever_s};
  if (s.may_peek && s.replicas == 0) offer.at_s = peeks_at_s_;
  return offer;
}

void Plan::forked(double now_s, double used_s) {
  if (forks_++ == 0) first_fork_s_ = now_s;
  living_++;
  misses_ = 0;
  in_its_place_ = false;
  present_ = {};
  seen_used_s_ = used_s;
  forks_from_s_ = now_s;
  fork_jitter_ = jitter(random_);
}

void Plan::lived(double now_s, const PastLife& life, const Prices& prices) {
  living_ -= living_ != 0;
  fork_.paid(life.price_s(prices));
  lifetimes_s_ += life.lifetime_s;
  forks_from_s_ = bursts_from_s_ = now_s;
  fork_jitter_ = jitter(random_);
  lengths_.lived(life, prices);
}

void Plan::kept(double seconds) {
  if (fork_.steps == 0) return;
  fork_.last_s += seconds;
  fork_.mean_s += seconds / static_cast<double>(std::min(fork_.steps, kRemembered));
  lengths_.kept(seconds);
}

void Plan::burst(double now_s, double used_s, double price_s) {
  misses_ = 0;
  burst_.paid(price_s);
  bursts_from_s_ = now_s;
  burst_jitter_ = jitter(random_);
  seen_used_s_ = used_s;
}

void Plan::peeked(double now_s, double price_s, bool found_new) {
  peek_gap_s_ = found_new ? kSoon_s : std::min(kLongestPeekGap_s, kGrowthRatio * peek_gap_s_);
  const double paid_s = price_s / (wishes_.peek_share * wishes_.max_overhead_share);
  peeks_at_s_ = now_s + std::max(jitter(random_) * peek_gap_s_, paid_s);
}

void Plan::missed(double now_s, What step, double longest_retry_s) {
  if (step == What::peek) {
    peeks_at_s_ = now_s + kLongestPeekGap_s;
    return;
  }
  double wait_s = kSoon_s;
  for (unsigned i = 0; i < misses_ && wait_s < longest_retry_s; i++) wait_s *= kGrowthRatio;
  misses_++;
  retries_at_s_ = now_s + std::min(wait_s, longest_retry_s) * jitter(random_);
}

// The loan is for what is looked for, not for looks.
void Plan::elsewhere(double now_s, double look_s) {
  misses_++;
  const double paid_s = look_s / (kLookShare * wishes_.max_overhead_share);
  retries_at_s_ = now_s + std::max(kToBeMet_s, paid_s) * jitter(random_);
}

void Plan::forget_code(double now_s) {
  peek_gap_s_ = kSoon_s;
  peeks_at_s_ = now_s;
}

void Plan::probed(double now_s, double pause_s) {
  probes_at_s_ = now_s + pause_s / (kPeekShare * wishes_.max_overhead_share);
}

}  // namespace shadowprof::plan
