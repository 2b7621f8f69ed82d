// SPDX-License-Identifier: MIT
#include "sample/serves_first.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

namespace shadowprof {
namespace {

int nice_of_this_thread() {
  return ::getpriority(PRIO_PROCESS, 0);
}

TEST_CASE("who serves first has its former priority afterwards") {
  const int before = nice_of_this_thread();
  {
    const sample::ServesFirst first;
    CHECK(nice_of_this_thread() <= before);
  }
  CHECK(nice_of_this_thread() == before);
  CHECK(::sched_getscheduler(0) == SCHED_OTHER);
}

TEST_CASE("who serves now is as before afterwards") {
  const sample::ServesFirst first;
  const int before = nice_of_this_thread();
  {
    const sample::ServesNow now;
    const int policy = ::sched_getscheduler(0);
    CHECK((policy == SCHED_FIFO || policy == SCHED_OTHER));
  }
  CHECK(::sched_getscheduler(0) == SCHED_OTHER);
  CHECK(nice_of_this_thread() == before);
}

TEST_CASE("whom somebody has given another policy keeps it") {
  std::thread([] {
    const sched_param none{};
    REQUIRE(::sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    const int before = nice_of_this_thread();
    const sample::ServesFirst first;
    const sample::ServesNow now;
    CHECK(::sched_getscheduler(0) == SCHED_IDLE);
    CHECK(nice_of_this_thread() == before);
  }).join();
}

}  // namespace
}  // namespace shadowprof
