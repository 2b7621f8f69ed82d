// SPDX-License-Identifier: MIT
#include "inject/fixed/turn_order.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using shadowprof::Tid;
using shadowprof::inject::TurnOrder;

namespace {

bool anybody(Tid) {
  return true;
}

// Who has the turn, one after another.
std::vector<int> course(TurnOrder& turns, int length) {
  std::vector<int> ids;
  for (int i = 0; i < length; i++) {
    turns.pass();
    ids.push_back(turns.give(anybody)->value);
  }
  return ids;
}

}  // namespace

TEST_CASE("turns go round in the order in which threads came") {
  TurnOrder turns;
  CHECK_FALSE(turns.is_active());
  turns.begin(Tid(7));
  CHECK(turns.is_holder(Tid(7)));
  turns.add(Tid(3));
  turns.add(Tid(9));
  turns.add(Tid(3));
  CHECK(course(turns, 4) == std::vector{3, 9, 7, 3});
}

TEST_CASE("who cannot go on keeps the place") {
  TurnOrder turns;
  turns.begin(Tid(1));
  turns.add(Tid(2));
  turns.add(Tid(3));
  turns.pass();
  CHECK(turns.give([](Tid tid) { return tid != Tid(2); }) == Tid(3));
  turns.pass();
  CHECK(turns.give(anybody) == Tid(2));
  turns.pass();
  CHECK_FALSE(turns.give([](Tid) { return false; }).has_value());
  CHECK_FALSE(turns.holder().has_value());
}

TEST_CASE("threads end and change their ids") {
  TurnOrder turns;
  turns.begin(Tid(1));
  turns.add(Tid(2));
  turns.add(Tid(5));
  turns.rename(Tid(1), Tid(5));
  CHECK(turns.is_holder(Tid(5)));
  CHECK(turns.waiting().size() == 1);
  turns.forget(Tid(5));
  CHECK_FALSE(turns.holder().has_value());
  CHECK(turns.give(anybody) == Tid(2));
}

TEST_CASE("a seed draws an order that comes again") {
  const auto of_seed = [](uint64_t seed) {
    TurnOrder turns(seed);
    turns.begin(Tid(1));
    for (int id = 2; id <= 6; id++) turns.add(Tid(id));
    std::vector<int> ids = course(turns, 50);
    for (int i = 0; i < 50; i++) ids.push_back(static_cast<int>(turns.length()));
    return ids;
  };
  CHECK(of_seed(3) == of_seed(3));
  CHECK(of_seed(3) != of_seed(4));
  const auto ids = of_seed(0);
  CHECK(std::set<int>(ids.begin(), ids.begin() + 50).size() == 6);
  for (size_t i = 50; i < ids.size(); i++) CHECK(ids[i] > 0);
}
