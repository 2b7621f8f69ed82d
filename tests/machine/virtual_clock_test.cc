// SPDX-License-Identifier: MIT
#include "machine/virtual_clock.h"

#include <doctest/doctest.h>

using shadowprof::machine::nanoseconds_of;
using shadowprof::machine::timespec_of;
using shadowprof::machine::VirtualClock;

TEST_CASE("the clock advances with instructions, looks and sleeps") {
  VirtualClock clock;
  CHECK(clock.now_ns() == 0);
  clock.retire(1500);
  clock.look();
  CHECK(clock.now_ns() == 1500 + VirtualClock::kLook_ns);
  clock.sleep_until(1'000'000);
  CHECK(clock.now_ns() == 1'000'000);
  clock.sleep_until(10);
  CHECK(clock.now_ns() == 1'000'000);
  CHECK(clock.worked_ns() == 1500 + VirtualClock::kLook_ns);
}

TEST_CASE("all clocks begin at their own moment and go together") {
  VirtualClock clock;
  clock.retire(2'000'000'007);
  CHECK(clock.read(CLOCK_REALTIME)->tv_sec == VirtualClock::kBegin_s + 2);
  CHECK(clock.read(CLOCK_REALTIME_COARSE)->tv_nsec == 7);
  CHECK(clock.read(CLOCK_MONOTONIC)->tv_sec == 100'002);
  CHECK(clock.read(CLOCK_BOOTTIME)->tv_nsec == 7);
  CHECK(clock.time_stamp() == 100'002'000'000'007);
  CHECK_FALSE(clock.read(CLOCK_PROCESS_CPUTIME_ID).has_value());
  CHECK_FALSE(clock.read(99).has_value());
}

TEST_CASE("a moment of a clock is so long after the begin") {
  const VirtualClock clock;
  CHECK(clock.elapsed_at(CLOCK_MONOTONIC, {100'003, 5}) == 3'000'000'005);
  CHECK(clock.elapsed_at(CLOCK_REALTIME, {VirtualClock::kBegin_s, 9}) == 9);
  CHECK(clock.elapsed_at(CLOCK_REALTIME, {12, 9}) == 0);
  CHECK_FALSE(clock.elapsed_at(99, {1, 0}).has_value());
  CHECK(nanoseconds_of(timespec_of(7'000'000'003)) == 7'000'000'003);
  CHECK(nanoseconds_of({-1, 0}) == 0);
}
