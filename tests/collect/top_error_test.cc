// SPDX-License-Identifier: MIT
#include "collect/values/top_error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "profile/random.h"

using namespace shadowprof;
using collect::missed_phase;
using collect::TopError;

namespace {

double uniform(profile::Random& random) {
  return static_cast<double>(random.next() >> 11) * 0x1p-53;
}

struct FoundTop {
  double covered = 0;  // share of runs whose interval holds the truth
  double width = 0;    // half of the interval, in the mean
  double off = 0;      // root of the mean square
};

// Runs of so many windows of about 60 values, one of which has the share in_window() in a window,
// and `truth` in all. `other` is what else there is.
FoundTop intervals(int windows, double truth,
                   const std::function<double(profile::Random&)>& in_window) {
  constexpr int kRuns = 1000;
  profile::Random random(static_cast<uint64_t>(windows) * 77 + 5);
  FoundTop found;
  for (int run = 0; run < kRuns; run++) {
    TopError error;
    profile::ValueHotlist hotlist;
    uint64_t count = 0;
    for (int w = 0; w < windows; w++) {
      const double share = in_window(random);
      for (uint64_t left = 40 + random.next() % 40; left != 0; left--, count++)
        hotlist.add(uniform(random) < share ? 7 : 8, 1, profile::HotlistKind::counting_sample, 16,
                    random);
      error.sample_ended(hotlist, count);
    }
    const profile::ValueCount top = hotlist.hottest();
    const double true_share = top.value == 7 ? truth : 1 - truth;
    const double off =
        std::abs(static_cast<double>(top.count) / static_cast<double>(count) - true_share);
    const double half =
        std::max(missed_phase(error.samples()), profile::critical_value(error.samples()) *
                                                    error.error_of_share(top.value, hotlist));
    found.covered += off <= half ? 1.0 / kRuns : 0;
    found.width += half / kRuns;
    found.off += off * off / kRuns;
  }
  found.off = std::sqrt(found.off);
  return found;
}

const auto kSteady = [](profile::Random&) { return 0.8; };
const auto kMixed = [](profile::Random& random) { return uniform(random); };
// A phase of this share has another value.
auto phase(double share) {
  return [share](profile::Random& random) { return uniform(random) < share ? 0.0 : 0.98; };
}

}  // namespace

TEST_CASE("the interval of a top value's share holds the truth as often as it says") {
  for (const int windows : {12, 20, 60}) {
    CAPTURE(windows);
    CHECK(intervals(windows, 0.98 * 0.8, phase(0.2)).covered > 0.92);
    CHECK(intervals(windows, 0.5, kMixed).covered > 0.94);
    CHECK(intervals(windows, 0.8, kSteady).covered > 0.94);
    // A phase that four windows see in the mean.
    const double rare = 4.0 / windows;
    CHECK(intervals(windows, 0.98 * (1 - rare), phase(rare)).covered > 0.92);
  }
  // And is as wide as the figure is off: twice, in the mean.
  const FoundTop steady = intervals(60, 0.8, kSteady);
  CHECK(steady.width < 2.5 * steady.off);
  const FoundTop phases = intervals(60, 0.98 * 0.8, phase(0.2));
  CHECK(phases.width < 2.5 * phases.off);
}

TEST_CASE("few windows that agree have room for a phase that they have missed") {
  // 2, 4 and 8 windows miss a phase of a tenth in 81, 66 and 43 % of the runs.
  CHECK(missed_phase(2) == doctest::Approx(0.415).epsilon(0.01));
  CHECK(missed_phase(8) == doctest::Approx(0.074).epsilon(0.01));
  CHECK(missed_phase(17) > 0);
  CHECK(missed_phase(18) == 0);
  CHECK(missed_phase(1000) == 0);
  CHECK(intervals(3, 0.98 * 0.8, phase(0.2)).covered > 0.95);
  // One in six runs of eight windows misses a phase of a fifth, and cannot know it.
  CHECK(intervals(8, 0.98 * 0.8, phase(0.2)).covered > 0.8);
}

TEST_CASE("a value that becomes the hottest late has the error of a phase") {
  profile::Random random(3);
  TopError error;
  profile::ValueHotlist hotlist;
  for (uint64_t w = 0; w < 40; w++) {
    hotlist.add(w < 15 ? 1 : 2, 100, profile::HotlistKind::counting_sample, 16, random);
    error.sample_ended(hotlist, 100 * (w + 1));
  }
  CHECK(error.samples() == 40);
  // sqrt(25 / 40 * 15 / 40 / 39), as if each window had been followed.
  CHECK(error.error_of_share(2, hotlist) == doctest::Approx(0.0775).epsilon(0.05));
  CHECK(error.error_of_share(1, hotlist) == doctest::Approx(0.0775).epsilon(0.05));
}
