// SPDX-License-Identifier: MIT
//
// Single decisions of the plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "plan/plan.h"

namespace shadowprof::plan {
namespace {

constexpr double kFork_s = 0.002;

// A program that always runs, and is not followed.
struct Run {
  Plan plan;
  Ledger ledger;
  Prices prices{};
  Situation s{};

  explicit Run(const Wishes& wishes = {})
      : plan(wishes), ledger(wishes.max_overhead_share, wishes.delay_s) {
    s.can_be_followed = false;
    s.may_burst = s.may_peek = false;
  }
  // The next step that is not to wait, when it is due.
  Step next() {
    for (;;) {
      const Step step = plan.next(s, ledger, prices);
      if (step.what != What::wait) return step;
      CHECK(step.at_s > s.now_s);
      s.used_s += step.at_s - s.now_s;
      s.now_s = step.at_s;
    }
  }
  void fork(double price_s, double lifetime_s = 0.01, double guest_s = 0) {
    plan.forked(s.now_s, s.used_s);
    ledger.spend(Cause::pause, price_s);
    plan.lived(s.now_s, {.pause_s = price_s, .lifetime_s = lifetime_s, .guest_s = guest_s}, prices);
  }
  void burst(double price_s) {
    ledger.spend(Cause::pause, price_s);
    plan.burst(s.now_s, s.used_s, price_s);
  }
  // Forks and bursts of such prices until then; their numbers.
  struct Numbers {
    int forks = 0;
    int bursts = 0;
  };
  Numbers until(double end_s, double fork_s, double burst_s) {
    Numbers numbers;
    while (s.now_s < end_s) {
      if (next().what == What::fork) {
        fork(fork_s);
        numbers.forks++;
      } else {
        burst(burst_s);
        numbers.bursts++;
      }
    }
    return numbers;
  }
};

TEST_CASE("the budget is used, and kept") {
  for (const double share : {0.01, 0.05}) {
    Run run({.max_overhead_share = share});
    const Run::Numbers numbers = run.until(600, kFork_s, 0);
    CHECK(run.ledger.spent_share(600) < 1.02 * share);
    CHECK(run.ledger.spent_share(600) > 0.95 * share);
    CHECK(numbers.bursts == 0);
  }
}

TEST_CASE("a fork waits for an idle core, and not for long") {
  Run run;
  CHECK(run.next().what == What::fork);
  const double due_s = run.s.now_s;
  run.s.core_is_idle = false;
  SUBCASE("one is idle a moment later") {
    const Step step = run.plan.next(run.s, run.ledger, run.prices);
    CHECK(step.why == Why::no_idle_core);
    run.s.now_s = step.at_s;
    run.s.core_is_idle = true;
    CHECK(run.next().what == What::fork);
    CHECK(run.s.now_s == doctest::Approx(due_s + kBetweenLooksForCore_s));
  }
  SUBCASE("none is") {
    CHECK(run.next().what == What::fork);
    CHECK(run.s.now_s == doctest::Approx(due_s + (kLooksForCore - 1) * kBetweenLooksForCore_s));
  }
  CHECK(run.next().what == What::fork);
}

TEST_CASE("where no core is idle bursts come until the first replica is within twice the budget") {
  Run run;
  run.s.may_burst = true;
  run.s.core_is_idle = false;
  double spent_s = 0;
  for (;;) {
    const Step step = run.next();
    if (step.what == What::fork) break;
    CHECK(step.what == What::burst);
    run.burst(0.001);
    spent_s += 0.001;
    CHECK(run.s.now_s < 10);
  }
  CHECK(run.s.now_s > 1);
  CHECK(spent_s + run.prices.first_replica_s < 2.2 * 0.01 * run.s.now_s);
  Run idle;
  idle.s.may_burst = true;
  CHECK(idle.next().what == What::fork);
  CHECK(idle.s.now_s < 0.1);
}

TEST_CASE("cheap forks are bounded by the load") {
  Run run({.load = 0.25});
  double lived_s = 0;
  while (run.s.now_s < 60) {
    run.next();
    run.s.now_s += 0.02;
    run.fork(1e-6, 0.02);
    lived_s += 0.02;
  }
  CHECK(lived_s / run.s.now_s == doctest::Approx(0.25).epsilon(0.05));
}

TEST_CASE("a frequency is not exceeded in the mean, by forks nor by bursts") {
  for (const bool may_fork : {true, false}) {
    Run run({.max_overhead_share = 0.5, .frequency_hz = 10});
    run.s.may_fork = may_fork;
    run.s.may_burst = !may_fork;
    const Run::Numbers numbers = run.until(50, 0.001, 0.001);
    CHECK(numbers.forks + numbers.bursts < 530);
    CHECK(numbers.forks + numbers.bursts > 450);
  }
}

TEST_CASE(
    "nothing is sampled before the delay, and then the budget is not what had been saved up") {
  Run run({.delay_s = 5});
  run.next();
  CHECK(run.s.now_s >= 5);
  run.fork(0.01);
  run.next();
  CHECK(run.s.now_s > 5.4);
}

TEST_CASE("what may be dear has to be paid for first, and what may not is lent") {
  Run cheap;
  cheap.s.written_pages = 0.05 / cheap.prices.page_kept_s;
  CHECK(cheap.next().why == Why::first);
  CHECK(cheap.s.now_s < 0.05);
  Run dear;
  dear.s.written_pages = 0.2 / dear.prices.page_kept_s;
  dear.next();
  CHECK(dear.s.now_s == doctest::Approx(20));
}

TEST_CASE("the next fork is paced by what the last ones cost, not by the worst") {
  Run run;
  run.s.written_pages = 0.09 / run.prices.page_kept_s;  // within the loan
  run.next();
  run.fork(kFork_s);
  CHECK(run.next().what == What::fork);
  CHECK(run.s.now_s < 1);
}

void fork_dearly_at_first(Run& run) {
  run.s.may_burst = true;
  run.next();
  CHECK(run.s.now_s < kStartUp_s);
  run.fork(0.025);
  run.until(1, 0.025, 0.001);
}

TEST_CASE(
    "a dear fork of the program's start says little of the next one, which is lent for once") {
  Run run;
  fork_dearly_at_first(run);
  while (run.next().what != What::fork) run.burst(0.001);
  CHECK(run.s.now_s > 1);
  CHECK(run.s.now_s < 2);
  run.fork(0.025);  // it was not the start
  const double second_s = run.s.now_s;
  while (run.next().what != What::fork) run.burst(0.001);
  CHECK(run.s.now_s > second_s + 5);
}

TEST_CASE("of a program that writes to the same pages the worst need not be lent then") {
  for (const bool same : {false, true}) {
    Run run;
    fork_dearly_at_first(run);
    run.s.written_pages = 0.3 / run.prices.page_kept_s;  // more than the loan
    run.s.writes_same_pages = same;
    while (run.next().what != What::fork && run.s.now_s < 10) run.burst(0.001);
    CAPTURE(same);
    CHECK((run.s.now_s < 2) == same);
  }
}

TEST_CASE("what forks have cost says nothing of a program that has several times the memory now") {
  for (const bool resembles : {true, false}) {
    Run run;
    run.s.now_s = kStartUp_s;
    run.next();
    run.fork(0.03);
    run.s.resembles_last_fork = resembles;
    CHECK(run.next().what == What::fork);
    CAPTURE(resembles);
    CHECK((run.s.now_s < 4) == !resembles);
    CHECK(run.s.now_s >= 2);
    // The loan is a loan all the same.
    run.s.written_pages = 0.2 / run.prices.page_kept_s;
    run.fork(0.03);
    run.next();
    CHECK(run.s.now_s > 10);
  }
}

TEST_CASE("what is not spent on bursts is saved for a fork") {
  Run run;
  run.s.may_burst = true;
  run.s.written_pages = 0.4 / run.prices.page_kept_s;
  while (run.s.now_s < 30) {
    const Step step = run.next();
    CHECK(step.what == What::burst);
    CHECK(step.why == Why::fork_too_dear);
    run.burst(0.002);
  }
  CHECK(run.ledger.spent_share(30) < 0.0085);
  CHECK(run.ledger.spent_share(30) > 0.003);
}

TEST_CASE("where no fork is possible bursts have what there is for samples") {
  Run run;
  run.s.may_burst = true;
  run.s.may_fork = false;
  (void)run.until(100, 0, 0.002);
  CHECK(run.ledger.spent_share(100) == doctest::Approx(0.01 * kSamplesShare).epsilon(0.1));
}

TEST_CASE("gaps between dear forks are filled") {
  Run run;
  run.s.may_burst = true;
  const Run::Numbers numbers = run.until(60, 0.02, 0.001);
  CHECK(run.ledger.spent_share(60) < 0.0115);
  CHECK(run.ledger.spent_share(60) > 0.006);
  CHECK(numbers.forks > 8);
  CHECK(numbers.bursts > 180);
  CHECK(numbers.bursts < 420);
}

TEST_CASE("bursts have the part of a fork that it would not pay for") {
  Run run;
  run.s.may_burst = true;
  const Run::Numbers numbers = run.until(60, 0.1, 0.001);
  CHECK(numbers.forks <= 2);
  CHECK(numbers.bursts > 300);
}

TEST_CASE("the kind of samples that says more for what it costs gets most of the budget") {
  const auto bursts_with = [](double of_forks, double of_bursts) {
    Run run;
    run.s.may_burst = true;
    run.s.fork_variance = of_forks;
    run.s.burst_variance = of_bursts;
    return run.until(100, 0.02, 0.001).bursts;
  };
  const int alike = bursts_with(0.05, 1);
  CHECK(bursts_with(1, 1) > alike + 100);
  CHECK(bursts_with(0.005, 1) < alike - 100);
}

TEST_CASE("samples that are all alike, or cost nothing, are planned like others") {
  Run run;
  run.s.may_burst = true;
  run.s.fork_variance = run.s.burst_variance = 0;
  const Run::Numbers numbers = run.until(60, 0.008, 0);
  CHECK(numbers.forks > 10);
  CHECK(numbers.bursts > 100);
}

TEST_CASE("bursts are no closer together than what is one observation") {
  Run run({.max_overhead_share = 0.9});
  run.s.may_burst = true;
  run.s.may_fork = false;
  const Run::Numbers numbers = run.until(60, 0, 0.001);
  CHECK(numbers.bursts < 60 / (0.9 * kObservation_s));
}

TEST_CASE("a program that sleeps is tried less and less often, or as often as is wanted") {
  Run run;
  std::vector<double> gaps;
  for (int i = 0; i < 20; i++) {
    const double before_s = run.s.now_s;
    run.next();
    gaps.push_back(run.s.now_s - before_s);
    run.plan.missed(run.s.now_s, What::fork);
  }
  CHECK(gaps.back() > 10 * gaps[1]);
  CHECK(gaps.back() <= 1.5 * kLongestRetry_s);
  run.plan.missed(run.s.now_s, What::fork, 0.02);
  const double before_s = run.s.now_s;
  run.next();
  CHECK(run.s.now_s - before_s <= 0.03);
}

TEST_CASE("looks for a part of the program take half of the budget, and come every 20 ms at most") {
  Run run;
  const auto until_next = [&](double look_s) {
    double sum_s = 0;
    for (int i = 0; i < 100; i++) {
      const double before_s = run.s.now_s;
      run.plan.elsewhere(before_s, look_s);
      run.next();
      sum_s += run.s.now_s - before_s;
    }
    return sum_s / 100;
  };
  CHECK(until_next(1e-6) == doctest::Approx(kToBeMet_s).epsilon(0.1));
  CHECK(until_next(0.001) == doctest::Approx(0.2).epsilon(0.1));  // of a budget of one percent
}

TEST_CASE(
    "peeks come often as long as they find something, seldom when not, and keep their share") {
  Run run;
  run.s.may_fork = false;
  run.s.may_peek = true;
  run.s.now_s = 0.005;
  for (int i = 0; i < 50; i++) run.plan.peeked(run.s.now_s, 1e-6, true);
  (void)run.next();
  CHECK(run.s.now_s < 0.02);
  for (int i = 0; i < 50; i++) run.plan.peeked(run.s.now_s, 1e-6, false);
  const double before_s = run.s.now_s;
  CHECK(run.next().why == Why::new_code);
  CHECK(run.s.now_s > before_s + 0.4);
  run.plan.peeked(run.s.now_s, 0.001, true);
  const double peeked_s = run.s.now_s;
  (void)run.next();
  CHECK(run.s.now_s == doctest::Approx(peeked_s + 0.001 / (kPeekShare * 0.01)));
}

TEST_CASE("probes of the program's core keep to their share") {
  Plan plan({});
  plan.probed(5, 0.0002);
  CHECK(plan.probes_at_s() == doctest::Approx(5 + 0.0002 / (kPeekShare * 0.01)));
}

TEST_CASE("the same seed gives the same moments") {
  Run a({.seed = 42}), b({.seed = 42});
  for (int i = 0; i < 100; i++) {
    const Step step = a.next();
    CHECK(step.length_s == b.next().length_s);
    CHECK(a.s.now_s == b.s.now_s);
    a.fork(kFork_s);
    b.fork(kFork_s);
  }
}

// One sample a second, from second `from` on, of which a second would cost so much.
double length_after(Lengths& lengths, int from, int samples, double pause_s, double per_second) {
  for (int i = from; i < from + samples; i++) {
    PastLife life{.pause_s = pause_s, .lifetime_s = 0.01};
    life.guest_s = lengths.next_s(i, static_cast<uint64_t>(i));
    life.busy_core_s = per_second * life.guest_s;
    lengths.lived(life, {});
  }
  return lengths.next_s(from + samples, static_cast<uint64_t>(from + samples));
}

TEST_CASE("a sample's length makes its growing cost a quarter of its fixed one") {
  Lengths lengths(0.01, 1);
  CHECK(length_after(lengths, 0, 60, 1e-3, 0.1) == doctest::Approx(0.0025).epsilon(0.1));
  SUBCASE("and follows when that changes for long") {
    CHECK(length_after(lengths, 61, 4000, 1e-3, 0.02) == doctest::Approx(0.0125).epsilon(0.1));
  }
  SUBCASE("but not from one sample to the next") {
    CHECK(length_after(lengths, 61, 1, 1e-3, 10) > 0.002);
  }
}

TEST_CASE("a sample's length has bounds") {
  Lengths cheap(0.01, 1), dear(0.01, 1);
  CHECK(length_after(cheap, 0, 60, 1e-3, 0) > 0.018);
  CHECK(length_after(cheap, 61, 1, 1e-3, 0) <= kGreatestLength_s);
  CHECK(length_after(dear, 0, 60, 1e-6, 1000) < 0.00055);
}

TEST_CASE("a sample is the longer the more time it stands for") {
  for (const double parts : {0.5, 1.0, 2.0, 30.0}) {
    CAPTURE(parts);
    Lengths lengths(0.01, 1);
    const double usual_s = length_after(lengths, 0, 60, 1e-3, 0.1);
    CHECK(lengths.next_s(60 + parts, 60) ==
          doctest::Approx(std::min(parts, kMostPartsRatio) * usual_s).epsilon(0.1));
  }
}

}  // namespace
}  // namespace shadowprof::plan
