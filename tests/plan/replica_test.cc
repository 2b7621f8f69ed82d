// SPDX-License-Identifier: MIT
//
// What the plan tells a replica that has given a sample.
#include <doctest/doctest.h>

#include "plan/plan.h"

namespace shadowprof::plan {
namespace {

// A replica, each of whose samples takes `recording_s`.
struct Life {
  Plan plan;
  Ledger ledger;
  Prices prices{};
  Situation s{};
  double recording_s = 0.003;
  unsigned samples = 1;

  explicit Life(const Wishes& wishes = {}, double forked_at_s = 0)
      : plan(wishes), ledger(wishes.max_overhead_share, wishes.delay_s) {
    s.now_s = forked_at_s;
    s.replicas = 1;
    s.idle = IdleReplica{.pause_s = 0.001};
    plan.forked(s.now_s, s.used_s);
    prices.beyond_cache_share = 0;
    // Another fork is dear.
    s.written_pages = s.resident_pages = 10 / prices.page_copied_s;
    s.idle->copied_pages = s.written_pages;
    pass(recording_s, 0.001);
    s.idle->recorded_s = recording_s;
  }
  void pass(double seconds, double executed_s) {
    s.now_s += seconds;
    s.used_s += seconds;
    s.idle->age_s += seconds;
    s.idle->used_s += seconds;
    s.idle->executed_s += executed_s;
  }
  Step next() { return plan.next(s, ledger, prices); }
  void carry_out(const Step& step) {
    if (step.what == What::rest) {
      CHECK(step.at_s > s.now_s);
      return pass(step.at_s - s.now_s, 0);
    }
    CHECK(step.native_s > 0);
    CHECK(step.length_s > 0);
    pass(step.native_s + recording_s, step.native_s + step.length_s);
    s.idle->recorded_s += recording_s;
    samples++;
  }
  // Until it is to end, or for so long.
  Why live(double seconds, double cost_rate = 0) {
    const double end_s = s.now_s + seconds;
    while (s.now_s < end_s) {
      const Step step = next();
      if (step.what == What::end) return step.why;
      carry_out(step);
      s.idle->cost_s = cost_rate * s.idle->age_s;
    }
    return Why::follows;
  }
};

TEST_CASE(
    "a replica that may not last lives as long as the load allows until the next is paid for") {
  Life life({.load = 0.5});
  life.s.idle->pause_s = 0.004;
  CHECK(life.live(10) == Why::lived_enough);
  CHECK(life.s.idle->age_s > 0.15);
  CHECK(life.s.idle->age_s < 0.25);
  CHECK(life.samples > 20);
}

TEST_CASE("no such replica lives for ever, or costs more than its fork and a second's budget") {
  Life old;
  old.s.can_be_followed = false;
  old.s.idle->pause_s = 1;
  CHECK(old.live(10) == Why::lived_enough);
  CHECK(old.s.idle->age_s < 2.1);
  Life dear;
  dear.s.can_be_followed = false;
  CHECK(dear.live(10, 0.5) == Why::too_dear);
  CHECK(dear.s.idle->age_s < 0.05);
}

TEST_CASE("a budget that pays for many forks needs no later samples of such a replica") {
  Life life({.max_overhead_share = 1});
  life.s.can_be_followed = false;
  (void)life.live(10);
  CHECK(life.samples == 1);
}

TEST_CASE("a replica lasts at full load, of one thread, beside a program that does not feel it") {
  const auto lasts = [](double load, double busy_core_share, bool can_be_followed) {
    Situation s;
    s.can_be_followed = can_be_followed;
    Prices prices;
    prices.busy_core_share = busy_core_share;
    return Plan({.load = load}).may_last(s, prices);
  };
  CHECK(lasts(1, 0, true));
  CHECK(lasts(1, 0.008, true));
  CHECK_FALSE(lasts(1, 0.009, true));
  CHECK_FALSE(lasts(0.9, 0, true));
  CHECK_FALSE(lasts(1, 0, false));
}

TEST_CASE("one that lasts loses little of its time, whatever its samples take") {
  for (const double recording_s : {0.001, 0.005, 0.012}) {
    CAPTURE(recording_s);
    Life life;
    life.recording_s = recording_s;
    CHECK(life.live(30) == Why::follows);
    CHECK(life.s.idle->executed_s > 0.75 * life.s.idle->age_s);
  }
}

TEST_CASE(
    "their samples are of one length, and not close together where they are cheap for a while") {
  Life life;
  life.recording_s = 0.0001;
  for (int i = 0; i < 100; i++) {
    const Step step = life.next();
    CHECK(step.why == Why::follows);
    CHECK(step.length_s >= 0.5 * kSample_s);
    CHECK(step.length_s <= 1.5 * kSample_s);
    CHECK(step.native_s >= 0.5 * kLeastBetween_s);
    CHECK(step.native_s <= 1.5 * kLongestBetween_s);
    life.carry_out(step);
  }
}

TEST_CASE("now and then one that lasts executes until its caches are warm") {
  Life life;
  life.recording_s = 0.0001;
  const double end_s = life.s.now_s + 20;
  unsigned long_ones = 0;
  while (life.s.now_s < end_s) {
    const Step step = life.next();
    long_ones += step.warms_up;
    if (step.warms_up) CHECK(step.native_s > 2 * kLeastBetween_s);
    life.carry_out(step);
  }
  CHECK(long_ones > 10);
  CHECK(long_ones < 40);
  Life with_threads;
  with_threads.s.can_be_followed = false;
  CHECK_FALSE(with_threads.next().warms_up);
}

TEST_CASE("one that lasts ends when it costs more than is left of the budget") {
  Life life({}, 100);
  life.s.used_s = 100;
  life.s.idle->cost_s = 0.9;
  CHECK(life.next().what == What::go_on);
  life.s.idle->cost_s = 1.1;
  CHECK(life.next().why == Why::too_dear);
}

TEST_CASE("one that is far behind the program makes room for another, if that is paid for") {
  Life life({}, 100);
  life.s.used_s = 100;
  life.s.idle->used_s = 10;
  life.s.idle->executed_s = 4;
  CHECK(life.next().what == What::go_on);  // behind, but the next would cost 10 s
  life.s.resident_pages = life.s.written_pages = 0.4 / life.prices.page_copied_s;
  life.ledger.spend(Cause::pause, 0.3);
  CHECK(life.next().what == What::go_on);  // more than half of what is left
  life.ledger.spend(Cause::pause, -0.3);
  const Step step = life.next();
  CHECK(step.why == Why::far_behind);
  // At once, as it may be dearer soon.
  life.plan.lived(life.s.now_s, {.pause_s = 0.001, .lifetime_s = 100}, life.prices);
  life.s.idle.reset();
  life.s.replicas = 0;
  life.s.resident_pages = life.s.written_pages = 0;
  CHECK(life.next().why == Why::in_its_place);
}

TEST_CASE("one that its neighbourhood alone forbids to last rests until that was measured again") {
  Life life;
  life.prices.busy_core_share = 0.05;
  life.s.idle->age_s = 3;
  life.s.measures_contention_at_s = life.s.now_s + 0.05;
  const Step rest = life.next();
  CHECK(rest.why == Why::busy_core);
  CHECK(rest.at_s == doctest::Approx(life.s.now_s + 0.05));
  SUBCASE("and ends if it still may not") {
    life.s.measures_contention_at_s = 0;
    CHECK(life.next().what == What::end);
  }
  SUBCASE("and goes on if it may") {
    life.prices.busy_core_share = 0;
    CHECK(life.next().what == What::go_on);
  }
}

TEST_CASE("one on the program's core rests until that is paid for, and meanwhile asks again") {
  Life life;
  (void)life.live(1);
  life.s.shared_core_share = 0.3;
  double rested_s = 0;
  for (;;) {
    const Step step = life.next();
    if (step.what != What::rest) break;
    CHECK(step.why == Why::shares_core);
    CHECK(step.at_s <= life.s.now_s + kLongestBetween_s + 1e-9);
    rested_s += step.at_s - life.s.now_s;
    life.carry_out(step);
  }
  CHECK(rested_s > 0.1);
  SUBCASE("and goes on as soon as it is on another") {
    life.carry_out(life.next());
    CHECK(life.next().what == What::rest);
    life.s.shared_core_share = 0;
    CHECK(life.next().what == What::go_on);
  }
}

TEST_CASE("one on the program's core does not rest where the budget pays for that") {
  Life life({.max_overhead_share = 0.5});
  life.s.shared_core_share = 0.3;
  for (int i = 0; i < 20; i++) {
    const Step step = life.next();
    CHECK(step.what == What::go_on);
    life.carry_out(step);
  }
}

// Far into a run; other forks cost a millisecond or so.
Life cheap(const Wishes& wishes = {}) {
  Life life(wishes, 100);
  life.s.used_s = 100;
  life.s.resident_pages = life.s.written_pages = life.s.idle->copied_pages = 500;
  return life;
}

TEST_CASE(
    "one that is cheap to replace rests longer than it works, and is replaced when that is paid") {
  Life life = cheap();
  double worked_s = 0;
  Step step = life.next();
  while (step.what != What::end) {
    const double before_s = life.s.now_s;
    life.carry_out(step);
    if (step.what == What::go_on) worked_s += life.s.now_s - before_s;
    step = life.next();
  }
  CHECK(step.why == Why::far_behind);
  CHECK(worked_s < 0.45 * life.s.idle->age_s);
  CHECK(life.s.idle->behind_s() > kLeastBehind_s);
  CHECK(life.s.idle->behind_s() < 1);
}

// Until it is to be replaced, or for half a second.
double executed_share(Life& life) {
  while (life.s.idle->age_s < 0.5) {
    const Step step = life.next();
    if (step.what == What::end) break;
    life.carry_out(step);
  }
  return life.s.idle->executed_s / life.s.idle->age_s;
}

TEST_CASE("it executes the less of a program the more that writes to") {
  Life little = cheap(), much = cheap();
  much.s.written_pages = much.s.resident_pages = much.s.idle->copied_pages = 3000;
  CHECK(executed_share(much) < 0.6 * executed_share(little));
}

TEST_CASE("and the more of it the more of a cache two cores share") {
  Life roomy = cheap(), crowded = cheap();
  roomy.prices.take_cache_neighbour(0.01);
  crowded.prices.take_cache_neighbour(0.4);
  CHECK(crowded.prices.most_cache_share == Prices::kMostCacheShare);
  for (Life* life : {&roomy, &crowded})
    life->s.written_pages = life->s.resident_pages = life->s.idle->copied_pages = 3000;
  CHECK(executed_share(crowded) < 0.6 * executed_share(roomy));
}

TEST_CASE("and the less of it the slower it is with cold caches") {
  Life quick = cheap(), slow = cheap();
  slow.prices.take_warm_gain(1.8);
  CHECK(executed_share(slow) < 0.6 * executed_share(quick));
  Prices as_they_were;
  as_they_were.take_warm_gain(0.9);
  CHECK(as_they_were.cache_share == Prices{}.cache_share);
  slow.prices.take_cache_neighbour(0.4);
  slow.prices.take_warm_gain(3);
  CHECK(slow.prices.most_cache_share == Prices::kMostCacheShare);
  slow.prices.take_cache_neighbour(0);
  CHECK(slow.prices.cache_share == doctest::Approx(0.01));
}

TEST_CASE("one that is dear to replace executes so much as pays for what caches lose by it") {
  Life life({}, 100);
  life.s.used_s = 100;
  life.prices.beyond_cache_share = 0.02;
  while (life.s.idle->age_s < 20) life.carry_out(life.next());
  CHECK(life.s.idle->executed_s / life.s.idle->age_s ==
        doctest::Approx(kSamplesShare * 0.5).epsilon(0.05));
}

TEST_CASE("beside one that cannot be replaced, and is far behind, there are bursts") {
  Life life({}, 60);
  life.s.used_s = 60;
  life.s.idle->used_s = 50;
  life.s.idle->executed_s = 33;
  CHECK(life.next().why == Why::follows);
  life.s.idle->executed_s = 31;
  CHECK(life.next().why == Why::lags);
}

TEST_CASE("one that is so far behind that what it sees is long over ends") {
  Life life({}, 500);
  life.s.used_s = life.s.idle->used_s = 500;
  life.s.idle->executed_s = 460;
  CHECK(life.next().why == Why::follows);
  life.s.used_s = life.s.idle->used_s = 100;
  life.s.idle->executed_s = 71;
  CHECK(life.next().why == Why::follows);
  life.s.idle->executed_s = 69;
  CHECK(life.next().why == Why::lost_track);
}

TEST_CASE("bursts beside one that lags leave what it costs, and borrow nothing") {
  const auto beside = [](double executed_s) {
    Life life({}, 60);
    life.s.used_s = 60;
    life.s.idle->used_s = 50;
    life.s.idle->executed_s = executed_s;
    life.s.idle->cost_s = 0.3;
    (void)life.next();
    life.s.idle.reset();
    return life;
  };
  Life life = beside(31);
  life.ledger.spend(Cause::pause, 0.3);
  CHECK(life.next().what == What::wait);
  life.s.now_s = 61;
  CHECK(life.next().what == What::burst);
  Life close = beside(50);
  close.s.now_s = 70;
  CHECK(close.next().what == What::wait);
}

TEST_CASE("what is cheap to replace is so by how long the run is, in the program's time") {
  Life life = cheap();
  life.s.written_pages = life.s.resident_pages = 0.04 / life.prices.page_copied_s;
  life.s.idle->copied_pages = life.s.written_pages;
  CHECK(life.next().why == Why::spares_cache);
  life.s.used_s = 5;
  life.s.now_s = 5;
  life.s.idle->age_s = life.s.idle->used_s = life.s.idle->executed_s = 5;
  CHECK(life.next().why == Why::follows);
}

TEST_CASE("where more is allowed there is no need to rest") {
  Life life = cheap({.max_overhead_share = 0.2});
  while (life.s.idle->age_s < 0.3) {
    const Step step = life.next();
    CHECK(step.what == What::go_on);
    life.carry_out(step);
  }
}

TEST_CASE("one that is cut short between two samples has not recorded") {
  Life life;
  (void)life.live(5);
  const Step before = life.next();
  life.pass(before.native_s / 2, before.native_s / 2);  // and no sample
  const Step after = life.next();
  CHECK(after.what == What::go_on);
  CHECK(after.native_s < 3 * before.native_s);
}

TEST_CASE("a replica without its program, core or memory ends") {
  Life life;
  life.s.idle->is_obsolete = true;
  CHECK(life.next().why == Why::obsolete);
}

}  // namespace
}  // namespace shadowprof::plan
