// SPDX-License-Identifier: MIT
#include "shadow/pace_checks.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

constexpr uint32_t kAlone = 4000, kShared = 8000;

TEST_CASE("a check that takes twice as long as the quickest was disturbed") {
  PaceChecks checks;
  CHECK(checks.was_undisturbed(kAlone));
  CHECK(!checks.was_undisturbed(kShared));
  CHECK(checks.was_undisturbed(kAlone + kAlone / 4));
}

TEST_CASE("what was quick once in thousands of times is not how fast the core is") {
  PaceChecks checks;
  for (int i = 0; i < 30; i++) checks.was_undisturbed(kAlone);
  CHECK(checks.was_undisturbed(kAlone / 3) == true);
  CHECK(checks.was_undisturbed(kAlone) == true);
}

TEST_CASE("where all take long, and for thousands of checks, none was disturbed") {
  PaceChecks checks;
  CHECK(checks.was_undisturbed(kAlone));
  for (int i = 0; i < 5000; i++) checks.was_undisturbed(kShared);
  CHECK(checks.was_undisturbed(kShared));
  CHECK(!checks.was_undisturbed(2 * kShared));
}

TEST_CASE("one undisturbed check of ten is enough to tell the others") {
  PaceChecks checks;
  for (int i = 0; i < 5000; i++) {
    const bool is_alone = i % 10 == 0;
    const bool told = checks.was_undisturbed(is_alone ? kAlone : kShared);
    if (i > 0) REQUIRE(told == is_alone);
  }
}

}  // namespace
}  // namespace shadowprof::shadow
