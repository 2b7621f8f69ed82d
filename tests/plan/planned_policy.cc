// SPDX-License-Identifier: MIT
//
// Plan and Ledger, as ShadowRun uses them.
#include "policy.h"

namespace shadowprof::plan {
namespace {

class PlannedPolicy : public Policy {
 public:
  explicit PlannedPolicy(const Wishes& wishes)
      : plan_(wishes), ledger_(wishes.max_overhead_share, wishes.delay_s) {}

  Step next(const Situation& situation, const Prices& prices) override {
    return plan_.next(situation, ledger_, prices);
  }
  void forked(double now_s, double used_s, double) override { plan_.forked(now_s, used_s); }
  void died(double now_s, const PastLife& life, const Prices& prices) override {
    ledger_.spend(Cause::pause, life.pause_s);
    ledger_.spend(Cause::copied_pages, life.copied_pages * prices.page_copied_s);
    ledger_.spend(Cause::busy_core, life.busy_core_s);
    plan_.lived(now_s, life, prices);
  }
  void burst(const Situation& situation, double pause_s, const Step&) override {
    ledger_.spend(Cause::pause, pause_s);
    plan_.burst(situation.now_s, situation.used_s, pause_s);
  }
  void peeked(double now_s, double pause_s, bool found_new) override {
    ledger_.spend(Cause::peek, pause_s);
    plan_.peeked(now_s, pause_s, found_new);
  }
  double worked(double worked_s, double executed_s, double copied_pages,
                const Prices& prices) override {
    const double lost_s = plan_.lost_in_caches_s(worked_s, executed_s, copied_pages, prices);
    ledger_.spend(Cause::cache, lost_s);
    return lost_s;
  }
  void missed(double now_s, const Step& step) override { plan_.missed(now_s, step.what); }
  void kept(double, double pages, const Prices& prices) override {
    if (pages <= 0) return;
    ledger_.spend(Cause::kept_pages, pages * prices.page_kept_s);
    plan_.kept(pages * prices.page_kept_s);
  }
  double estimated_share(double now_s) const override { return ledger_.spent_share(now_s); }
  bool is_too_dear(double cost_s, double pause_s, const Situation& s,
                   const Prices& prices) const override {
    return plan_.is_too_dear(cost_s, pause_s, ledger_.unspent_s(s.now_s),
                             plan_.may_last(s, prices));
  }

 private:
  Plan plan_;
  Ledger ledger_;
};

}  // namespace

std::unique_ptr<Policy> planned_policy(const Wishes& wishes) {
  return std::make_unique<PlannedPolicy>(wishes);
}

}  // namespace shadowprof::plan
