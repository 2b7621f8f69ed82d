// SPDX-License-Identifier: MIT
#include "sample/later_samples.h"

#include <doctest/doctest.h>

namespace shadowprof::sample {
namespace {

struct Life {
  unsigned samples = 1;
  double age = 0;
};

// Of a replica each of whose samples takes `recording` seconds, and costs `rate` of its life.
Life live(LaterSamples& later, double pause, double recording, double rate) {
  Life life{1, recording};
  later.begin(pause);
  ReplicaState state;
  state.age = state.recorded = recording;
  while (const auto next = later.next(state)) {
    CHECK(next->seconds > 0);
    CHECK(next->native_s > 0);
    state.age += next->native_s + recording;
    state.recorded += recording;
    state.cost = rate * state.age;
    life.samples++;
  }
  life.age = state.age;
  return life;
}

GovernorOptions budget_of(double share, double load) {
  GovernorOptions options;
  options.max_overhead = share;
  options.load = load;
  return options;
}

ReplicaState of_age(double seconds) {
  ReplicaState state;
  state.age = state.recorded = state.executed = state.used = state.whole_run = seconds;
  state.may_last = true;
  state.next_may_cost = 10;
  return state;
}

// In which a replica has begun that may last.
LaterSamples begun() {
  LaterSamples later(budget_of(0.01, 1));
  later.begin(0.001);
  return later;
}

TEST_CASE("a replica that may not last lives as long as the load allows until the next is paid for") {
  LaterSamples later(budget_of(0.01, 0.5));
  const Life life = live(later, 0.004, 0.003, 0);
  CHECK(life.age > 0.15);
  CHECK(life.age < 0.25);
  CHECK(life.samples > 20);
}

TEST_CASE("no such replica lives for ever, or costs more than its fork and a second's budget") {
  LaterSamples later(budget_of(0.01, 1));
  CHECK(live(later, 1, 0.003, 0).age < 2.1);
  CHECK(live(later, 0.001, 0.003, 0.5).age < 0.05);
  CHECK(live(later, 0.04, 0.003, 0.5).age < 0.1);
}

TEST_CASE("a budget that pays for many forks needs no later samples of such a replica") {
  LaterSamples later(budget_of(1, 1));
  CHECK(live(later, 0.001, 0.003, 0).samples == 1);
}

TEST_CASE("where recording takes long, samples of one that may not last are shorter and further apart") {
  LaterSamples quick(budget_of(0.01, 1)), slow(budget_of(0.01, 1));
  quick.begin(0.01);
  slow.begin(0.01);
  ReplicaState state = of_age(0.003);
  state.may_last = false;
  const auto short_gap = quick.next(state);
  state.age = state.recorded = 0.1;
  const auto long_gap = slow.next(state);
  REQUIRE(short_gap);
  REQUIRE(long_gap);
  CHECK(long_gap->native_s > 2 * short_gap->native_s);
  CHECK(long_gap->seconds < short_gap->seconds);
}

TEST_CASE("replicas may last at full load, beside a program that does not feel them") {
  CHECK(LaterSamples(budget_of(0.01, 1)).may_last(0));
  CHECK(LaterSamples(budget_of(0.01, 1)).may_last(0.007));
  CHECK_FALSE(LaterSamples(budget_of(0.01, 1)).may_last(0.01));
  CHECK_FALSE(LaterSamples(budget_of(0.01, 0.5)).may_last(0));
}

// Executes the program but for what each sample, and all that is done about it, takes. How much of its
// time that is.
double lose(LaterSamples& later, ReplicaState& state, double by_sample, unsigned samples) {
  const double began = state.age, executed = state.executed;
  for (unsigned i = 0; i < samples; i++) {
    state.age += by_sample;
    state.recorded += by_sample / 2;
    const auto next = later.next(state);
    REQUIRE(next);
    state.age += next->native_s;
    state.executed += next->native_s;
  }
  return 1 - (state.executed - executed) / (state.age - began);
}

TEST_CASE("one that lasts loses little of its time, whatever its samples take") {
  LaterSamples later = begun();
  ReplicaState state = of_age(0);
  CHECK(lose(later, state, 0.001, 100) < 0.3);
  CHECK(lose(later, state, 0.01, 500) < 0.25);
}

TEST_CASE("they are of one length") {
  LaterSamples quick = begun(), slow = begun();
  ReplicaState state = of_age(0.003);
  const double seconds = quick.next(state)->seconds;
  state.age = state.recorded = 0.1;
  const double other = slow.next(state)->seconds;
  CHECK(other < 2 * seconds);
  CHECK(other > 0.5 * seconds);
}

TEST_CASE("samples of one that lasts are no closer together where they are cheap for a while") {
  LaterSamples later = begun();
  ReplicaState state = of_age(0);
  (void)lose(later, state, 0.01, 200);
  const double age = state.age;
  (void)lose(later, state, 0.0005, 10);
  CHECK((state.age - age) / 10 > 0.02);
}

TEST_CASE("one that lasts ends when it costs more than is left of the budget") {
  LaterSamples later = begun();
  ReplicaState state = of_age(1000);
  state.cost = 5;
  state.unspent = 6;
  CHECK(later.next(state));
  CHECK_FALSE(later.is_too_dear(5, 6));
  state.unspent = 4;
  CHECK_FALSE(later.next(state));
  CHECK(later.is_too_dear(5, 4));
}

TEST_CASE("one that is far behind the program makes room for another, if that is paid for") {
  LaterSamples later = begun();
  ReplicaState state = of_age(100);
  state.executed = 80;
  state.next_costs = 0.2;
  CHECK(later.next(state));
  CHECK_FALSE(later.is_replaced());
  state.unspent = 0.5;
  CHECK_FALSE(later.next(state));
  CHECK(later.is_replaced());
  state.executed = 97;
  CHECK(later.next(state));
  CHECK_FALSE(later.is_replaced());
}

TEST_CASE("one that the neighbourhood alone forbids to last rests until that was looked at again") {
  LaterSamples later = begun();
  ReplicaState state = of_age(0.02);
  state.may_last = false;
  state.rest = 0.4;
  CHECK(later.next(state)->native_s > 0);
  state.age = 1.1;
  CHECK(later.next(state)->rest_s == 0.4);
  state.age = 1.5;
  state.rest = 0.5;
  CHECK(later.next(state)->rest_s == 0.5);
  state.age = 2;
  state.rest = 0;
  SUBCASE("and then may") {
    state.may_last = true;
    const auto next = later.next(state);
    REQUIRE(next);
    CHECK(next->native_s > 0);
    // It did not record while it rested.
    CHECK(next->native_s < 0.1);
  }
  SUBCASE("or ends") { CHECK_FALSE(later.next(state)); }
  SUBCASE("and what it has cost may be less by then") {
    state.cost = 1;
    state.rest = 0.5;
    CHECK(later.next(state)->rest_s == 0.5);
    state.cost = 0.001;
    state.may_last = true;
    CHECK(later.next(state)->native_s > 0);
  }
}

TEST_CASE("one on the program's core rests until that is paid for, and meanwhile the core is looked at") {
  LaterSamples later = begun();
  ReplicaState state = of_age(0.02);
  REQUIRE(later.next(state)->native_s > 0);
  CHECK(later.take_loss() == 0);
  state.age += 0.05;
  state.slow_down = 0.1;
  const double lost = 0.05 * 0.1;
  double rested = 0;
  auto next = later.next(state);
  while (next && next->rest_s > 0) {
    CHECK(next->rest_s < 0.1);
    rested += next->rest_s;
    state.age += next->rest_s;
    next = later.next(state);
  }
  REQUIRE(next);
  CHECK(lost <= 0.01 * (rested + 0.05));
  CHECK(rested < 1);
  // Once for all these rests.
  CHECK(later.take_loss() == doctest::Approx(lost));
  CHECK(later.take_loss() == 0);
  // Not for long, where it will have to rest again.
  CHECK(next->native_s < 0.01);
}

TEST_CASE("one on the program's core goes on as soon as it is on another") {
  LaterSamples later = begun();
  ReplicaState state = of_age(0.02);
  REQUIRE(later.next(state)->native_s > 0);
  state.age += 0.05;
  state.slow_down = 0.3;
  CHECK(later.next(state)->rest_s > 0);
  state.age += 0.05;
  state.slow_down = 0;
  CHECK(later.next(state)->native_s > 0);
}

// Of a replica whose samples take 10 ms: for which share of the time it works, and what it executes of
// the program in a second.
struct Pace {
  double works = 0;
  double executes = 0;
};

Pace pace(LaterSamples& later, ReplicaState& state) {
  const double began = state.age, executed = state.executed;
  double worked = 0;
  for (int i = 0; i < 200; i++) {
    const auto next = later.next(state);
    REQUIRE(next);
    state.age += next->rest_s;
    if (next->rest_s > 0) continue;
    state.recorded += 0.01;
    state.age += next->native_s + 0.01;
    worked += next->native_s + 0.01;
    state.executed += next->native_s + next->seconds;
    state.used = state.executed;
  }
  return {worked / (state.age - began), (state.executed - executed) / (state.age - began)};
}

TEST_CASE("one that is cheap to replace rests longer than it works, and may be farther behind") {
  LaterSamples later = begun();
  ReplicaState state = of_age(100);
  state.next_may_cost = state.next_costs = 0.001;
  const Pace found = pace(later, state);
  CHECK(found.works > 0.25);
  CHECK(found.works < 0.4);
  state.unspent = 1;
  state.used = state.whole_run = 100;
  state.executed = 99.7;
  CHECK(later.next(state));
  state.executed = 99;
  CHECK_FALSE(later.next(state));
  // A second is what pays for this one.
  state.next_may_cost = 0.005;
  state.executed = 99.2;
  CHECK(later.next(state));
  state.executed = 98.8;
  CHECK_FALSE(later.next(state));
}

TEST_CASE("it executes the less of a program the more that writes to") {
  LaterSamples later = begun(), other = begun();
  ReplicaState state = of_age(100), state_of_other = of_age(100);
  state.next_may_cost = state_of_other.next_may_cost = 0.005;
  state_of_other.next_copies = 5e6;
  const Pace usual = pace(later, state), found = pace(other, state_of_other);
  CHECK(found.executes < 0.1);
  CHECK(found.executes < 0.5 * usual.executes);
  CHECK(found.works > 0.05);
}

TEST_CASE("what is cheap to replace is so by how long the run is, in the program's time") {
  LaterSamples later = begun();
  ReplicaState state = of_age(1);
  state.next_may_cost = 0.05;
  CHECK(pace(later, state).works == doctest::Approx(1));
  SUBCASE("long") {
    state.whole_run = 100;
    CHECK(pace(later, state).works < 0.5);
  }
  SUBCASE("and while that waits most of the time the budget grows") {
    state.elapsed = 5;
    CHECK(pace(later, state).works < 0.5);
  }
}

TEST_CASE("where more is allowed there is no need to rest") {
  LaterSamples later(budget_of(0.05, 1));
  later.begin(0.001);
  ReplicaState state = of_age(0.02);
  state.next_may_cost = state.next_costs = 0.001;
  for (int i = 0; i < 100; i++) {
    const auto next = later.next(state);
    REQUIRE(next);
    CHECK(next->rest_s == 0);
    state.age += next->native_s + 0.01;
    state.recorded += 0.01;
  }
}

TEST_CASE("one that is cut short between two samples has not recorded") {
  LaterSamples later(budget_of(0.01, 1)), other(budget_of(0.01, 1));
  later.begin(0.01);
  other.begin(0.01);
  ReplicaState state = of_age(0.02);
  state.may_last = false;
  REQUIRE(later.next(state));
  REQUIRE(other.next(state));
  state.age += 0.2;  // of rest, mostly
  const auto next = later.next(state);
  state.recorded += 0.2;
  const auto next_of_other = other.next(state);
  REQUIRE(next);
  REQUIRE(next_of_other);
  CHECK(next->seconds > next_of_other->seconds);
}

TEST_CASE("one on the program's core does not rest where the budget pays for that") {
  LaterSamples later(budget_of(0.5, 1));
  CHECK_FALSE(later.would_rest(0.3));
  later.begin(0.001);
  ReplicaState state = of_age(0.02);
  state.slow_down = 0.3;
  const auto next = later.next(state);
  REQUIRE(next);
  CHECK(next->native_s > 0);
  CHECK(later.take_loss() == 0);
}

}  // namespace
}  // namespace shadowprof::sample
