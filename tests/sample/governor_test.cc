// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>

#include "sample/governor.h"

namespace shadowprof::sample {
namespace {

struct Simulated {
  double overhead = 0;
  double load = 0;
  uint64_t samples = 0;
};

// A program that runs for `seconds`, each of whose samples costs and lasts the same.
Simulated simulate(const GovernorOptions& options, const SampleCost& cost, double seconds) {
  Governor governor(options, {});
  double active = 0;
  for (double now = 0;;) {
    now = std::max(now, governor.next_sample());
    if (now >= seconds) break;
    now += cost.pause + cost.lifetime;
    active += cost.lifetime;
    governor.sampled(now, cost);
  }
  return {governor.estimated_share(seconds), active / seconds, governor.samples()};
}

TEST_CASE("the overhead stays within the budget, and uses it") {
  for (double budget : {0.001, 0.01, 0.1}) {
    GovernorOptions options;
    options.max_overhead = budget;
    options.load = 1;
    const Simulated result = simulate(options, {0.001, 0.01, 500}, 60);
    CHECK(result.overhead <= 1.1 * budget);
    CHECK(result.overhead >= 0.7 * budget);
  }
}

TEST_CASE("cheap samples are bounded by the load") {
  for (double load : {0.05, 0.25, 1.0}) {
    GovernorOptions options;
    options.max_overhead = 1;
    options.load = load;
    const Simulated result = simulate(options, {0.0001, 0.02, 0}, 60);
    CHECK(result.load <= 1.1 * load);
    CHECK(result.load >= 0.7 * load);
  }
}

TEST_CASE("a frequency is not exceeded") {
  GovernorOptions options;
  options.max_overhead = 1;
  options.load = 1;
  options.frequency = 10;
  const Simulated result = simulate(options, {0.0001, 0.001, 0}, 60);
  CHECK(result.samples <= 660);
  CHECK(result.samples >= 480);
}

TEST_CASE(
    "nothing is sampled before the delay, and then the budget is not what had been saved up") {
  GovernorOptions options;
  options.delay = 5;
  Governor governor(options, {});
  CHECK(governor.next_sample() >= 5);
  governor.sampled(5.1, {0.01, 0.01, 0});
  CHECK(governor.next_sample() > 5.5);
}

TEST_CASE("a sample that makes room for another one is followed by that at once, if it is paid for") {
  Governor governor({}, {});
  governor.sampled(2, {0.015, 1.9, 0});
  CHECK(governor.next_sample() > 2.1);
  governor.replace(2);
  CHECK(governor.next_sample() == 2);
  governor.sampled(2.1, {0.015, 0.1, 0});
  governor.replace(2.1);
  CHECK(governor.next_sample() == doctest::Approx(3));
}

TEST_CASE("what may be dear has to be paid for first, and what may not is lent") {
  Governor governor({}, {});
  CHECK(governor.seconds_until_affordable(0.05, 0) == 0);
  CHECK(governor.seconds_until_affordable(0.2, 5) == doctest::Approx(15));
  CHECK(governor.seconds_until_affordable(0.2, 21) == 0);
  governor.paused(0.1);
  CHECK(governor.seconds_until_affordable(0.05, 0) == doctest::Approx(5));
  CHECK(governor.seconds_until_affordable(0.2, 5) == doctest::Approx(25));
}

TEST_CASE("half of the budget is saved while a program is not forked") {
  Governor governor({}, {});
  double now = 0;
  while (now < 60) {
    governor.interpreted(now, {.pause = 0.002});
    now = governor.next_sample();
  }
  CHECK(governor.estimated_share(now) < 0.006);
  CHECK(governor.estimated_share(now) > 0.004);
}

// Samples that cost so much each, and what fits between them, for a minute.
struct Filled {
  Governor governor = Governor(GovernorOptions(), shadow::FaultPrice());
  double now = 0;
  int forks = 0;
  int fillers = 0;
  double fork;

  explicit Filled(double cost_of_fork) : fork(cost_of_fork) { go_on(60); }
  void go_on(double until) {
    while (now < until) {
      now = governor.next_sample();
      if (forks != 0 && governor.next_filler() < now) {
        now = governor.next_filler();
        governor.filled(now, {.pause = 0.0007, .contention = 0.0003});
        fillers++;
      } else {
        SampleCost cost;
        cost.pause = fork;
        governor.sampled(now, cost);
        forks++;
      }
    }
  }
};

TEST_CASE("gaps between dear forks are filled, for half of the budget") {
  const Filled dear(0.02);
  CHECK(dear.governor.estimated_share(dear.now) < 0.0105);
  CHECK(dear.governor.estimated_share(dear.now) > 0.008);
  CHECK(dear.forks > 10);
  CHECK(dear.fillers > 180);
  CHECK(dear.fillers < 310);
}

TEST_CASE("the kind of samples that says more for what it costs gets most of the budget") {
  const auto fillers_with = [](double of_forked, double of_filler) {
    Filled run(0.02);
    run.governor.know_samples(of_forked, of_filler);
    run.go_on(120);
    return run.fillers;
  };
  const int neither = fillers_with(0.05, 1);
  CHECK(fillers_with(1, 1) > neither + 100);
  CHECK(fillers_with(0.005, 1) < neither - 100);
}

TEST_CASE("forks that are close together leave no gap") {
  CHECK(Filled(0.0003).fillers == 0);
}

TEST_CASE("a filler that was not taken is tried again later") {
  Governor governor({}, {});
  governor.filled(5, {});
  CHECK(governor.next_filler() > 5.1);
  CHECK(governor.estimated_share(5) == 0);
}

TEST_CASE("a frequency is not exceeded while a program is not forked") {
  GovernorOptions options;
  options.frequency = 10;
  options.max_overhead = 0.5;
  Governor governor(options, {});
  double now = governor.next_sample();
  for (int i = 0; i < 20; i++) {
    governor.interpreted(now, {.pause = 0.002});
    CHECK(governor.next_sample() >= now + 0.1);
    now = governor.next_sample();
  }
}

TEST_CASE("a sleeping program is looked at less and less often") {
  Governor governor({}, {});
  double now = governor.next_sample();
  double first_gap = 0, last_gap = 0;
  for (int i = 0; i < 20; i++) {
    governor.missed(now);
    last_gap = governor.next_sample() - now;
    if (i == 0) first_gap = last_gap;
    now = governor.next_sample();
  }
  CHECK(last_gap > 10 * first_gap);
  CHECK(last_gap <= 1);
}

// What a sample of so many seconds costs where only the pause is fixed.
SampleCost cost_of(double length, double pause, double per_second) {
  SampleCost cost{pause, 0.01, 0};
  cost.contention = per_second * length;
  cost.guest_s = length;
  return cost;
}

// One sample a second, from second `from` on, of which a second would cost so much.
double length_after(Governor& governor, int from, int samples, double pause, double per_second) {
  for (int i = from; i < from + samples; i++)
    governor.sampled(i, cost_of(governor.next_length(i), pause, per_second));
  return governor.next_length(from + samples);
}

TEST_CASE("a sample's length makes its growing cost a quarter of its fixed one") {
  Governor governor({}, {});
  CHECK(length_after(governor, 0, 60, 1e-3, 0.1) == doctest::Approx(0.0025).epsilon(0.1));
  SUBCASE("and follows when that changes for long") {
    CHECK(length_after(governor, 61, 4000, 1e-3, 0.02) == doctest::Approx(0.0125).epsilon(0.1));
  }
  SUBCASE("but not from one sample to the next") {
    CHECK(length_after(governor, 61, 1, 1e-3, 10) > 0.002);
  }
}

TEST_CASE("a sample's length has bounds") {
  Governor cheap({}, {}), dear({}, {});
  CHECK(length_after(cheap, 0, 60, 1e-3, 0) > 0.018);
  CHECK(length_after(cheap, 61, 1, 1e-3, 0) <= 0.02);
  CHECK(length_after(dear, 0, 60, 1e-6, 1000) < 0.00055);
}

TEST_CASE("a sample is the longer the more time it stands for") {
  for (const double part : {0.5, 1.0, 2.0, 30.0}) {
    CAPTURE(part);
    Governor governor({}, {});
    const double usual = length_after(governor, 0, 60, 1e-3, 0.1);
    CHECK(governor.next_length(60 + part) ==
          doctest::Approx(std::min(part, 4.0) * usual).epsilon(0.1));
  }
}

TEST_CASE("where looking is cheap, a sleeping program is still looked at often") {
  Governor governor({}, {});
  double now = governor.next_sample();
  for (int i = 0; i < 20; i++) {
    governor.missed(now, 0.02);
    CHECK(governor.next_sample() - now <= 0.03);
    now = governor.next_sample();
  }
}

TEST_CASE("the same seed gives the same moments") {
  GovernorOptions options;
  options.seed = 42;
  Governor a(options, {}), b(options, {});
  for (int i = 1; i < 100; i++) {
    a.sampled(i, {0.001, 0.01, 0});
    b.sampled(i, {0.001, 0.01, 0});
    CHECK(a.next_sample() == b.next_sample());
  }
}

}  // namespace
}  // namespace shadowprof::sample
