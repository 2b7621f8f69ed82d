// SPDX-License-Identifier: MIT
//
// What is done next: the one place where that is decided. Nothing here looks at a clock or a
// process; times are seconds since profiling began.
//
// **One rule.** Each step that could be taken has a price, what it costs the program, and a gain,
// the observations that it adds over the variance of its kind. Of those that the ledger can pay,
// that with the best gain for its price is taken (or, if it can pay all of them, with the best
// gain). If it can pay none, nothing is done until it can. But a program that can be sampled
// without a fork is not left unseen for longer than kLongestGap_s, or the time in which
// kLeastKindShare of the budget pays for a burst.
//
//   fork     costs its pause, and a page fault for each page that the program writes to because of
//            it. It says much of one moment, or, if the replica can follow the program, all that
//            comes.
//   burst    costs the time for which the program stands still: a few instructions of one moment,
//            without a fork. Where forks are far apart bursts show what the program does between
//            them.
//   peek     costs a short stop, says nothing by itself, and spares the next replica its stops for
//            code that is new. Often at first, rarely where peeks find nothing new.
//   go_on    costs what the program copies because the replica still has its pages: most programs
//            write to the same pages again and again, so that is less and less. The replica
//            executes natively for a while, and gives another sample.
//
// **Variance** of n samples is a variance / n, so between two kinds of samples, what counts is the
// price of one times its variance. Both are known when there were some of each; until then either
// kind gets half. The budget is divided between the kinds in proportion to their gains
// (kLeastKindShare). Where forks are *dear*, more than a second's budget each, nothing is lent for
// the second one, unless the first one was in the program's start-up (kStartUp_s); not even the
// worst that it may cost has to be lent if bursts show that the program writes to the same pages
// only. If its replica lasts, and no burst is taken meanwhile, its part has to pay for it. Where
// forks' part has not paid for one in all the time up to now bursts have it, too: one replica of a
// large program says less than a hundred bursts.
//
// **A replica that lasts** follows its program to the end, on a core of its own. It falls behind by
// all that it does not execute: recording, the stops for its tracer. So its samples are short, and
// as far apart as it takes to lose no more than kMayLoseShare of its time. What it has not executed
// when the program ends nobody has seen: when it is far behind, and another fork costs no more than
// half of what is left of the budget, that one takes its place. Where forks are *cheap*, as the
// program writes to little memory, the replica does not try to keep up, and is replaced whenever
// kForksShare of the budget has paid for that. Either rests between its samples until what the
// program lost in the caches that both use is paid for.
//
// The load bounds the share of time in which replicas run. All moments and lengths are drawn at
// random around what is wanted, so that nothing periodic in the program is seen always or never.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "plan/jitter.h"
#include "plan/ledger.h"
#include "plan/lengths.h"
#include "plan/plan_limits.h"
#include "plan/prices.h"
#include "plan/situation.h"
#include "plan/step.h"

namespace shadowprof::plan {

// What the user asked for.
struct Wishes {
  double max_overhead_share = 0.01;
  double load = 1;          // average number of replicas that run
  double frequency_hz = 0;  // samples; 0: what the budget allows
  double delay_s = 0;       // before the first one
  double peek_share = kPeekShare;
  uint64_t seed = 0;
};

// What a fork costs at worst if its replica does not live for long, as memory tells.
double expected_fork_s(const Situation& situation, const Prices& prices);

class Plan {
 public:
  explicit Plan(const Wishes& wishes);

  Step next(const Situation& situation, const Ledger& ledger, const Prices& prices);

  // From now on. The ledger is told, too.
  void set_max_overhead(double share);
  // From the next sample on; 0: what the budget allows.
  void set_frequency(double hz) { wishes_.frequency_hz = hz; }

  // What became of steps. All that these cost is in the ledger already.
  void forked(double now_s, double used_s);
  void lived(double now_s, const PastLife& life, const Prices& prices);
  // Pages that dead replicas had left to the program have cost so much since.
  void kept(double seconds);
  void burst(double now_s, double used_s, double price_s);
  void peeked(double now_s, double price_s, bool found_new);
  // What a peek, or a sample, was for had not been translated: the next ones come soon.
  void found_new_code() { peek_gap_s_ = kSoon_s; }
  // Nothing could be sampled or seen: the program slept, or could not be forked.
  void missed(double now_s, What step, double longest_retry_s = kLongestRetry_s);
  // A look, which took so long, found the program elsewhere than samples are to begin.
  void elsewhere(double now_s, double look_s);
  // Nothing is known of the program's code any more.
  void forget_code(double now_s);
  // Forks are needed so many times less often than the budget allows (convergence.h).
  void set_patience(double factor) { patience_ = factor; }
  // Would a replica that lasts rest if the program lost so much because both have one core?
  bool would_rest(double shared_core_share) const {
    return shared_core_share > kBusyCoreShare * wishes_.max_overhead_share;
  }
  bool may_last(const Situation& situation, const Prices& prices) const;
  // A replica that has cost so much, its pause excepted, is to end with its present sample.
  bool is_too_dear(double cost_s, double pause_s, double unspent_s, bool lasts) const;
  // What the program loses while a replica works for so long and executes so much, as both use its
  // caches.
  double lost_in_caches_s(double worked_s, double executed_s, double copied_pages,
                          const Prices& prices) const;
  // The program stood still for so long to be probed; the next time not before.
  void probed(double now_s, double pause_s);
  double probes_at_s() const { return probes_at_s_; }

  const std::array<uint64_t, kWhys>& counts() const { return counts_; }

 private:
  // A step that could be taken, and from when on.
  struct Offer {
    Step step;
    double at_s = 0;
    double price_s = 0;
    double gain = 0;  // observations over the variance of their kind
  };
  struct Price {
    double mean_s = 0;  // of the last few steps
    double last_s = 0;
    uint64_t steps = 0;
    void paid(double seconds);
  };

  // plan.cc
  Step chosen(Step step);
  bool waits_for_core(const Situation& s);
  Offer fork_offer(const Situation& s, const Ledger& ledger, const Prices& prices) const;
  Offer burst_offer(const Situation& s, const Ledger& ledger, const Prices& prices) const;
  Offer peek_offer(const Situation& s) const;
  double observations(const Situation& s, const Prices& prices, double price_s) const;
  double likely_fork_s(const Situation& s, const Prices& prices) const;
  bool first_takes_programs_core(const Situation& s) const;
  double dearest_fork_s(const Situation& s, const Prices& prices) const;
  bool forks_are_dear(const Situation& s, const Prices& prices) const;
  double burst_price_s(const Prices& prices) const;
  // A second's budget, more or less.
  double second_s() const { return kCostsBudgetOf_s * wishes_.max_overhead_share; }
  double fork_at_s(const Situation& s, const Ledger& ledger, double price_s) const;
  bool knows_only_start_up() const;
  double second_fork_at_s(const Ledger& ledger, double price_s) const;
  double dear_fork_at_s(const Situation& s, const Ledger& ledger, const Prices& prices) const;
  double burst_share(const Situation& s, double fork_price_s, double burst_price_s) const;
  double fork_part(const Situation& s, const Ledger& ledger, const Prices& prices) const;

  // plan_replica.cc
  Step of_replica(const Situation& s, const Ledger& ledger, const Prices& prices);
  void look_at(const IdleReplica& replica);
  bool forks_are_cheap(const Situation& s, const Prices& prices) const;
  double earned_after_s(double price_s, const Situation& s) const;
  bool is_to_be_replaced(const Situation& s, const Ledger& ledger, const Prices& prices) const;
  double rests_until_s(const Situation& s, const Prices& prices, Why& why) const;
  double between_s(const Situation& s, const Prices& prices) const;

  Wishes wishes_;
  Random random_;
  Lengths lengths_;
  double patience_ = 1;
  std::array<uint64_t, kWhys> counts_{};
  Why last_why_ = Why::budget_spent;

  // Forks.
  uint64_t forks_ = 0;
  uint64_t living_ = 0;
  Price fork_;
  double lifetimes_s_ = 0;
  double forks_from_s_;        // the next one is some time after
  double fork_jitter_ = 1;     // of that time
  double first_fork_s_ = 0;
  double seen_used_s_ = 0;     // of the program when it was sampled last
  double warm_at_s_ = 0;       // a replica's next long stretch
  bool in_its_place_ = false;  // the next one is for one that ended
  unsigned looks_for_core_ = 0;  // in a row that found none idle when a fork was due
  double looks_for_core_at_s_ = 0;  // again
  bool found_no_core_ = false;      // when a fork was due last
  // Bursts.
  Price burst_;
  double bursts_from_s_ = 0;
  double burst_jitter_ = 1;
  // Peeks, probes.
  double peeks_at_s_;
  double peek_gap_s_ = kSoon_s;
  double probes_at_s_ = 0;
  // Misses.
  double retries_at_s_ = 0;
  unsigned misses_ = 0;  // in a row

  // The present replica, when it was idle last. It worked from one time to the other.
  struct Present {
    double pause_s = 0;
    double went_on_age_s = 0;
    double stopped_age_s = 0;
    double recorded_s = 0;
    double executed_s = 0;
    double worked_s = 0;  // from one time to the other
    double executed_meanwhile_s = 0;
    bool works = true;
    bool is_cheap = false;  // forks_are_cheap(), which is asked once for a decision
    bool lags = false;      // so far behind that bursts show what the program does meanwhile
    double cost_s = 0;      // which the ledger does not know before it has ended
  } present_;
  // Means over replicas.
  uint64_t later_samples_ = 0;
  double recording_s_ = 0;  // of one sample
  double lost_s_ = 0;       // by a replica, from one sample to the next
};

// What is a rule and no bargain, with its reason: the rule cannot weigh what it does not see.
struct Rule {
  Why why;  // counts how often it decided
  std::string_view text;
};
extern const std::array<Rule, 10> kRules;

}  // namespace shadowprof::plan
