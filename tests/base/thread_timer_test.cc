// SPDX-License-Identifier: MIT
#include "base/thread_timer.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <ctime>

using namespace shadowprof;

namespace {

volatile sig_atomic_t rings = 0;

}  // namespace

TEST_CASE("a timer interrupts the thread that made it") {
  take_interruptions(SIGUSR2, [](int) { rings = rings + 1; });
  Result<ThreadTimer> timer = ThreadTimer::create(SIGUSR2);
  REQUIRE(timer.has_value());
  ThreadTimer moved = std::move(*timer);
  moved.once_in(1'000'000);
  const timespec long_enough{10, 0};
  CHECK(::nanosleep(&long_enough, nullptr) == -1);
  CHECK(rings == 1);
}

TEST_CASE("where no signal may be pending a timer is an error and no crash") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_SIGPENDING, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_SIGPENDING, &none) == 0);
  const Result<ThreadTimer> timer = ThreadTimer::create(SIGUSR2);
  REQUIRE(::setrlimit(RLIMIT_SIGPENDING, &before) == 0);
  REQUIRE_FALSE(timer.has_value());
  CHECK(timer.error().message ==
        "cannot make a timer (see ulimit -i): Resource temporarily unavailable");
}
