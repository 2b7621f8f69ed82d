// SPDX-License-Identifier: MIT
#include "sample/fault_account.h"

#include <doctest/doctest.h>

namespace shadowprof::sample {
namespace {

TEST_CASE("faults that come with a replica are ours, and those that come anyway are not") {
  FaultAccount account;
  SampleCost cost;
  account.begin(1, {1000, 5000}, cost);
  CHECK(cost.faults_afterwards == 0);
  account.end(1.1, {1300, 5000}, cost);
  CHECK(cost.faults_while_alive == 300);
  // A thousand in the second without one.
  account.begin(2.1, {2300, 5000}, cost);
  account.end(2.2, {2600, 5000}, cost);
  CHECK(cost.faults_while_alive == doctest::Approx(200));
}

TEST_CASE("pages that the program gets are its own faults, and no page is copied twice") {
  FaultAccount account;
  SampleCost cost;
  account.begin(1, {100, 100}, cost);
  CHECK(account.ours(1.1, {500, 450}) == 50);
  CHECK(account.ours(1.2, {5000, 450}) == 100);
  account.end(1.3, {5000, 450}, cost);
  CHECK(cost.faults_while_alive == 100);
}

TEST_CASE("what a sample that failed has cost counts for the next one") {
  FaultAccount account;
  SampleCost first, second;
  account.begin(1, {0, 5000}, first);
  account.end(2, {10, 5000}, first);
  account.begin(2.001, {210, 5000}, first);
  account.failed(first);
  account.begin(2.002, {210, 5000}, second);
  CHECK(second.faults_afterwards >= first.faults_afterwards);
}

}  // namespace
}  // namespace shadowprof::sample
