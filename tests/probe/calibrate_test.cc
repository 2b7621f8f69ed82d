// SPDX-License-Identifier: MIT
#include "probe/calibrate.h"

#include <doctest/doctest.h>

#include "probe/own_cores.h"

namespace shadowprof::probe {
namespace {

TEST_CASE("the least far load counts, and the greatest of those from another core") {
  LatencyRound quiet{.resolution = 1, .overhead = 30, .l2 = 14, .l3 = 40, .dram = 250};
  quiet.across = 45;
  LatencyRound busy = quiet;
  busy.l3 = 90;
  busy.dram = 400;
  busy.across = 240;
  const profile::LatencyCalibration c = calibration_of({quiet, busy, quiet});
  CHECK(c.typical[2] == 40);
  CHECK(c.typical[3] == 250);
  CHECK(c.across == 240);
  CHECK_FALSE(c.cores_share_last_cache());
  CHECK(calibration_of({quiet}).cores_share_last_cache());
}

TEST_CASE("near loads of rounds that shared their core do not count") {
  LatencyRound quiet{.resolution = 2, .overhead = 48, .l2 = 11, .l3 = 60, .dram = 250};
  quiet.hits.fill(3.2);
  LatencyRound shared = quiet;
  shared.overhead = 61;
  shared.l2 = 14;
  shared.hits.fill(1.3);
  const profile::LatencyCalibration c = calibration_of({shared, shared, quiet});
  CHECK(c.overhead == 48);
  CHECK(c.typical[0] == 3.2);
  CHECK(c.typical[1] == 11);
  CHECK(calibration_of({shared, shared}).typical[1] == 14);
}

TEST_CASE("a measured round says what another core's lines take, if there is one") {
  const OwnCores cores;
  const auto round = measure_latency_round(1);
  REQUIRE(round);
  CHECK((round->across > 0) == (cores.all().size() > 1));
  CHECK(OwnCores().all() == cores.all());  // and the thread may use all of them again
}

}  // namespace
}  // namespace shadowprof::probe
