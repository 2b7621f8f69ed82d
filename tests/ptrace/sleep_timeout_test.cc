// SPDX-License-Identifier: MIT
#include "ptrace/sleep_timeout.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include <doctest/doctest.h>

namespace shadowprof::ptrace {
namespace {

// That a thread of ours would sleep for.
std::optional<SleepTimeout> timeout_of_sleep(const timespec& length) {
  machine::Registers registers{};
  registers.orig_rax = SYS_nanosleep;
  registers.rdi = reinterpret_cast<uint64_t>(&length);
  return timeout_of(Tid(::gettid()), registers);
}

}  // namespace

TEST_CASE("a sleep is as long as its call says, and too long a one has no end") {
  using namespace std::chrono;
  const auto short_one = timeout_of_sleep({3, 5});
  REQUIRE(short_one.has_value());
  CHECK(short_one->length == seconds(3) + nanoseconds(5));
  // 290 years.
  const auto long_one = timeout_of_sleep({9'150'000'000, 999'999'999});
  REQUIRE(long_one.has_value());
  CHECK(long_one->length == seconds(9'150'000'000) + nanoseconds(999'999'999));
  for (const time_t most : {time_t{9'223'372'036}, time_t{9'300'000'000}, LONG_MAX}) {
    const auto endless = timeout_of_sleep({most, 999'999'999});
    REQUIRE(endless.has_value());
    CHECK(!endless->length.has_value());
  }
}

}  // namespace shadowprof::ptrace
