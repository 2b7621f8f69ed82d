// SPDX-License-Identifier: MIT
#include "profile/confidence.h"

#include <doctest/doctest.h>

#include <random>

#include "profile/profile.h"

namespace shadowprof {
namespace {

using namespace profile;

TEST_CASE("critical values are those of Student's t distribution") {
  // Tables: t(0.975, 4), t(0.975, 31), t(0.99995, 15), t(0.975, 1), t(0.975, 2).
  CHECK(critical_value(5) == doctest::Approx(2.776).epsilon(0.01));
  CHECK(critical_value(32) == doctest::Approx(2.040).epsilon(0.001));
  CHECK(critical_value(16, 1 - 1e-4) == doctest::Approx(5.239).epsilon(0.005));
  CHECK(critical_value(2) == doctest::Approx(12.706).epsilon(0.001));
  CHECK(critical_value(3) == doctest::Approx(4.303).epsilon(0.001));
  CHECK(std::isinf(critical_value(1)));
}

TEST_CASE("a share that no group has met is as large as one in twenty profiles misses") {
  for (const uint32_t groups : {1u, 4u, 100u})
    CHECK(std::pow(1 - unseen_share(groups), groups) == doctest::Approx(0.05));
  CHECK(unseen_share(0) == 1);
}

TEST_CASE("the interval of a share covers the truth as often as it says") {
  constexpr unsigned kSeed = 20261120;
  std::mt19937 random(kSeed);
  constexpr int kRounds = 2000;
  constexpr uint32_t kGroups = 24;
  constexpr double kShare = 0.3;
  int covered = 0;
  for (int round = 0; round < kRounds; round++) {
    ErrorSum sum;
    GroupSizes sizes;
    double n = 0;
    for (uint32_t g = 0; g < kGroups; g++) {
      // Groups are of different sizes, and what is in one resembles itself.
      const double size = std::uniform_real_distribution<>(5e5, 1.5e6)(random);
      const double in =
          size * std::clamp(std::normal_distribution<>(kShare, 0.1)(random), 0.0, 1.0);
      sum.add(in, {size});
      sizes.add({size});
      n += in;
    }
    const double share = n / sizes.all();
    const double error = static_cast<double>(sum.error(kGroups, sizes, share)) / sizes.all();
    covered += std::abs(share - kShare) <= critical_value(kGroups) * error;
  }
  INFO("seed ", kSeed);
  CHECK(covered > 0.93 * kRounds);
  CHECK(covered < 0.97 * kRounds);
}

TEST_CASE("what counts less than its time may be wrong by that, and is worth fewer groups") {
  ErrorSum sum;
  GroupSizes sizes;
  constexpr uint32_t kGroups = 10;
  // One group stands for half of the time, and has something that no other one has.
  const auto add = [&](double in_group, const GroupSize& group) {
    sum.add(in_group, group);
    sizes.add(group);
  };
  add(100, {100, 5});
  for (uint32_t g = 1; g < kGroups; g++) add(0, {100, 5.0 / 9});
  CHECK(sizes.worth() == 3);
  CHECK(sizes.all_by_time() == doctest::Approx(sizes.all()));
  const double error = static_cast<double>(sum.error(sizes.worth(), sizes, 0.1)) / sizes.all();
  CHECK(error > 0.4);
  CHECK(error < 0.5);
}

TEST_CASE("functions get errors from groups, none where every group has the same share") {
  Profile p;
  p.modules = {{"/bin/app", "aa", 0, 1, 1}};
  p.tables.blocks = {{{0, 0x10}, 4, 1, 300}, {{0, 0x20}, 4, 1, 100}};
  p.groups = {{{{{0, 0x10}, 150}, {{0, 0x20}, 50}}, 200},
              {{{{0, 0x10}, 150}, {{0, 0x20}, 50}}, 200}};
  p.confidence.groups = 2;
  FunctionTable names(2);
  names[0].at = {0, 0x10};
  names[1].at = {0, 0x20};
  names[0].size = names[1].size = 16;
  Profile steady = p;
  attribute_functions(steady, names);
  CHECK(steady.functions[0].self_error == 0);
  p.groups[0].code = {{{0, 0x10}, 200}};
  p.groups[1].code = {{{0, 0x10}, 100}, {{0, 0x20}, 100}};
  attribute_functions(p, names);
  // Residuals of 50 and -50, twice their squares.
  CHECK(p.functions[0].self_error == 100);
  CHECK(p.functions[1].self_error == 100);
  CHECK(p.groups.empty());
}

TEST_CASE("what is put together has the errors of independent observations") {
  CHECK(added_error(3, 4) == 5);
  CHECK(added_error(0, 4) == 4);
  CHECK(added({false, 10}, {false, 20}).groups == 29);
  CHECK(added({true, 0}, {false, 20}).groups == 20);
  CHECK(added({false, 0}, {false, 20}).groups == 0);
  CHECK(added({true, 0}, {true, 0}).exact);
}

}  // namespace
}  // namespace shadowprof
