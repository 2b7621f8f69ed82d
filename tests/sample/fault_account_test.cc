// SPDX-License-Identifier: MIT
#include "sample/fault_account.h"

#include <doctest/doctest.h>

namespace shadowprof::sample {
namespace {

// All pages its own, `reused` of all processes.
FaultMarks marks(uint64_t faults, uint64_t pages, uint64_t reused = 0) {
  return {faults, pages, pages, reused};
}

TEST_CASE("faults that come with a replica are ours, and those that come anyway are not") {
  FaultAccount account;
  account.begin(1, marks(1000, 500));
  CHECK(account.end(1.1, marks(1300, 500)) == 300);
  // A thousand in the second without one, of which 150 are ours.
  CHECK(account.settle(2.1, marks(2300, 500, 150)) == doctest::Approx(150));
  account.begin(2.1, marks(2300, 500));
  CHECK(account.end(2.2, marks(2600, 500)) == doctest::Approx(300 - 0.1 * 850 / 2));
}

TEST_CASE("a program that writes to all of its memory again and again has no faults of its own") {
  FaultAccount account;
  uint64_t faults = 1000, reused = 0;
  const uint64_t pages = 200'000;
  for (double now = 1; now < 10; now++) {
    account.begin(now, marks(faults, pages));
    faults += 50'000;
    CHECK(account.end(now + 0.1, marks(faults, pages, reused)) > 0.99 * 50'000);
    faults += 150'000;
    reused += 151'000;
    CHECK(account.settle(now + 1, marks(faults, pages, reused)) > 0.99 * 150'000);
    CHECK(account.expected(pages) > 0.99 * 200'000);
  }
}

TEST_CASE("pages that the program gets are its own faults, and no page is copied twice") {
  FaultAccount account;
  account.begin(1, marks(100, 100));
  CHECK(account.ours(1.1, marks(500, 450)) == 50);
  CHECK(account.ours(1.2, marks(5000, 450)) == 100);
  CHECK(account.end(1.3, marks(5000, 450)) == 100);
  SUBCASE("and none is left to it then") { CHECK(account.settle(2, marks(9000, 450, 99)) == 0); }
}

TEST_CASE("the next replica costs what the last one did, if the program is not another one") {
  FaultAccount account;
  CHECK(account.expected(5000) == 5000);
  account.begin(1, marks(0, 5000));
  (void)account.end(1.1, marks(100, 5000));
  CHECK(account.settle(2, marks(120, 5000, 30)) == 20);
  CHECK(account.expected(5000) == doctest::Approx(120).epsilon(0.1));
  CHECK(account.expected(10'000) == doctest::Approx(240).epsilon(0.1));
  CHECK(account.expected(120'000) == doctest::Approx(100'480).epsilon(0.1));
}

TEST_CASE("a program resembles the one of the last replica by its pages") {
  FaultAccount account;
  CHECK(!account.resembles_last(1));
  account.begin(1, marks(0, 5000));
  CHECK(account.resembles_last(10'000));
  CHECK(!account.resembles_last(10'001));
}

TEST_CASE("where the kernel does not tell them apart all that can be ours is") {
  FaultAccount account;
  account.begin(1, {0, 500, 600, std::nullopt});
  CHECK(account.end(1.1, {100, 500, 600, std::nullopt}) == 100);
  CHECK(account.settle(2, {400, 500, 700, std::nullopt}) == 200);
  CHECK(account.settle(3, {1000, 500, 700, std::nullopt}) == 200);
}

TEST_CASE("a replica that could not be forked changes nothing") {
  FaultAccount account;
  account.begin(1, marks(0, 5000));
  account.failed();
  account.begin(1.001, marks(0, 5000));
  CHECK(account.end(1.1, marks(300, 5000)) == 300);
}

}  // namespace
}  // namespace shadowprof::sample
