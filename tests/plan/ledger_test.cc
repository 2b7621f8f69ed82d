// SPDX-License-Identifier: MIT
#include "plan/ledger.h"

#include <doctest/doctest.h>

#include <string>

#include "plan/step.h"

namespace shadowprof::plan {
namespace {

TEST_CASE("what is spent is known by cause, and its sum is what is not left") {
  Ledger ledger(0.01, 0);
  ledger.spend(Cause::pause, 0.002);
  ledger.spend(Cause::copied_pages, 0.003);
  ledger.spend(Cause::pause, 0.001);
  CHECK(ledger.spent_s() == doctest::Approx(0.006));
  CHECK(ledger.spent_s(Cause::pause) == doctest::Approx(0.003));
  CHECK(ledger.unspent_s(1) == doctest::Approx(0.004));
  CHECK(ledger.unspent_s(0.1) == 0);
  CHECK(ledger.spent_share(2) == doctest::Approx(0.003));
  ledger.take_back(Cause::copied_pages, 0.0015);
  CHECK(ledger.spent_s() == doctest::Approx(0.0045));
}

TEST_CASE("signals cost what they cost, and keep nothing from being paid for") {
  Ledger ledger(0.01, 0);
  const Prices prices;
  ledger.charge_signals(1000, prices);
  ledger.charge_signals(1500, prices);
  CHECK(ledger.spent_s(Cause::signals) == doctest::Approx(1500 * prices.signal_s));
  CHECK(ledger.spent_share(1) == doctest::Approx(1500 * prices.signal_s));
  CHECK(ledger.unspent_s(1) == doctest::Approx(0.01));
  CHECK(ledger.pays_at_s(0.01) == doctest::Approx(1));
}

TEST_CASE("ten seconds' budget is lent to a step that costs no more, and nothing to a dearer one") {
  Ledger ledger(0.01, 5);
  CHECK(ledger.pays_at_s(0.05) == doctest::Approx(10));
  CHECK(ledger.lends_at_s(0.05) == doctest::Approx(0));
  CHECK(ledger.lends_at_s(0.2) == doctest::Approx(25));
}

TEST_CASE("nothing is allowed before it begins") {
  Ledger ledger(0.01, 5);
  CHECK(ledger.unspent_s(5) == 0);
  CHECK(ledger.unspent_s(6) == doctest::Approx(0.01));
}

TEST_CASE("each cause and each reason has a name of its own") {
  CHECK(std::string(name_of(Cause::peek)) == "peek");
  CHECK(std::string(name_of(Why::replicas_run)) == "wait_replicas_run");
  CHECK(std::string(sentence_of(Why::first)) == "the first replica");
}

}  // namespace
}  // namespace shadowprof::plan
