// SPDX-License-Identifier: MIT
//
// What ShadowRun decides by Governor, LaterSamples and LookSchedule, for the simulator.
#include "policy.h"
#include "sample/governor.h"
#include "sample/later_samples.h"
#include "sample/look_schedule.h"

namespace shadowprof::plan {
namespace {

constexpr double kSeldom_s = 1;

sample::GovernorOptions options_of(const Wishes& wishes) {
  sample::GovernorOptions options;
  options.max_overhead = wishes.max_overhead_share;
  options.load = wishes.load;
  options.seed = wishes.seed;
  return options;
}

class TodaysPolicy : public Policy {
 public:
  explicit TodaysPolicy(const Wishes& wishes)
      : max_overhead_(wishes.max_overhead_share),
        governor_(options_of(wishes), {}),
        later_(options_of(wishes)),
        looks_(kPeekShare * wishes.max_overhead_share, 0.005, wishes.seed) {}

  Step next(const Situation& s, const Prices& prices) override;
  void forked(double, double pause_s) override {
    moments_++;
    later_.begin(pause_s);
  }
  void died(double now_s, const PastLife& life, const Prices& prices) override;
  void burst(const Situation& s, double pause_s, const Step& step) override {
    sample::SampleCost cost;
    cost.pause = pause_s;
    if (step.why == Why::fork_too_dear) return governor_.interpreted(s.now_s, cost);
    governor_.know_samples(1, 1);
    governor_.filled(s.now_s, cost);
  }
  void peeked(double now_s, double pause_s, bool found_new) override {
    governor_.paused(pause_s);
    looks_.looked(now_s, pause_s, found_new);
  }
  void missed(double now_s, const Step& step) override {
    if (step.what == What::peek) return looks_.missed(now_s);
    if (step.what == What::burst && step.why != Why::fork_too_dear) {
      return governor_.filled(now_s, {});
    }
    governor_.missed(now_s);
  }
  void kept(double now_s, double pages, const Prices& prices) override;
  double estimated_share(double now_s) const override { return governor_.estimated_share(now_s); }
  bool is_too_dear(double cost_s, double, const Situation& s, const Prices&) const override {
    return later_.is_too_dear(cost_s, governor_.unspent(s.now_s));
  }

 private:
  Step of_replica(const Situation& s, const Prices& prices);
  std::optional<Step> sample(const Situation& s, const Prices& prices);

  double max_overhead_;
  sample::Governor governor_;
  sample::LaterSamples later_;
  sample::LookSchedule looks_;
  uint64_t moments_ = 0;
  bool interprets_ = false;
};

void TodaysPolicy::died(double now_s, const PastLife& life, const Prices& prices) {
  sample::SampleCost cost;
  cost.pause = life.pause_s;
  cost.lifetime = life.lifetime_s;
  // Governor was given its prices once.
  cost.faults_while_alive = life.copied_pages * prices.page_copied_s / shadow::FaultPrice{}.copied;
  cost.contention = life.busy_core_s;
  cost.guest_s = life.guest_s;
  governor_.sampled(now_s, cost);
  if (later_.is_replaced()) governor_.replace(now_s);
}

void TodaysPolicy::kept(double, double pages, const Prices& prices) {
  if (pages > 0) governor_.faulted(pages * prices.page_kept_s / shadow::FaultPrice{}.kept);
}

Step TodaysPolicy::of_replica(const Situation& s, const Prices& prices) {
  const IdleReplica& idle = *s.idle;
  sample::ReplicaState state;
  state.recorded = idle.recorded_s;
  state.age = idle.age_s;
  state.cost = idle.cost_s;
  state.unspent = governor_.unspent(s.now_s);
  state.executed = idle.executed_s;
  state.used = idle.used_s;
  state.whole_run = s.used_s;
  state.elapsed = s.now_s;
  state.may_last = s.can_be_followed && later_.may_last(prices.busy_core_share);
  state.slow_down = s.shared_core_share;
  state.next_costs = s.resident_pages * (prices.page_table_entry_s + prices.page_copied_s);
  state.next_may_cost =
      s.resident_pages * prices.page_table_entry_s + s.written_pages * prices.page_copied_s;
  state.next_copies = 4096 * s.written_pages;
  if (!s.may_give_later_samples) return {.what = What::end, .why = Why::lived_enough};
  const auto next = later_.next(state);
  if (!next) return {.what = What::end, .why = Why::lived_enough};
  if (next->rest_s > 0) {
    return {.what = What::rest, .why = Why::spares_cache, .at_s = s.now_s + next->rest_s};
  }
  return {.what = What::go_on,
          .why = Why::follows,
          .native_s = next->native_s,
          .length_s = next->seconds};
}

std::optional<Step> TodaysPolicy::sample(const Situation& s, const Prices& prices) {
  const double fork_s =
      s.resident_pages * prices.page_table_entry_s + s.written_pages * prices.page_kept_s;
  const double wait_s = governor_.seconds_until_affordable(fork_s, s.now_s);
  interprets_ = wait_s > kSeldom_s && s.may_burst && s.replicas == 0;
  if (interprets_) return Step{.what = What::burst, .why = Why::fork_too_dear};
  if (wait_s > 0) {
    governor_.wait(s.now_s + wait_s);
    return std::nullopt;
  }
  return Step{
      .what = What::fork, .why = Why::best_bargain, .length_s = governor_.next_length(s.now_s)};
}

Step TodaysPolicy::next(const Situation& s, const Prices& prices) {
  if (s.idle) return of_replica(s, prices);
  const bool fills = s.may_burst && moments_ != 0 && s.replicas == 0 && !interprets_;
  const bool peeks = s.may_peek && s.replicas == 0 && !interprets_;
  if (s.replicas < s.most_replicas && s.now_s >= governor_.next_sample()) {
    if (const auto step = sample(s, prices)) return *step;
  }
  if (peeks && s.now_s >= looks_.next()) return {.what = What::peek, .why = Why::new_code};
  if (fills && s.now_s >= governor_.next_filler()) {
    return {.what = What::burst, .why = Why::better_bargain};
  }
  Step step{.what = What::wait, .at_s = s.now_s + 1};
  if (s.replicas < s.most_replicas) step.at_s = std::min(step.at_s, governor_.next_sample());
  if (fills) step.at_s = std::min(step.at_s, governor_.next_filler());
  if (peeks) step.at_s = std::min(step.at_s, looks_.next());
  return step;
}

}  // namespace

std::unique_ptr<Policy> todays_policy(const Wishes& wishes) {
  return std::make_unique<TodaysPolicy>(wishes);
}

}  // namespace shadowprof::plan
