// SPDX-License-Identifier: MIT
#include "inject/fixed/virtual_timers.h"

#include <doctest/doctest.h>

namespace shadowprof::inject {
namespace {

using Kind = TimerName::Kind;
constexpr uint64_t kSecond_ns = machine::VirtualClock::kSecond_ns;
const Tid kProcess(7);

struct Timers {
  machine::VirtualClock clock;
  VirtualTimers all;
  int made = 0;

  VirtualTimer& timer(uint64_t until_ns, uint64_t interval_ns, bool of_work = false) {
    VirtualTimer fresh;
    fresh.of_work = of_work;
    fresh.event.signal = SIGALRM;
    VirtualTimer& added = all.add({Kind::posix, kProcess.value, made++}, fresh);
    all.arm(added, until_ns, interval_ns);
    return added;
  }
  std::vector<int> expired() {
    std::vector<int> numbers;
    for (const VirtualTimers::Expiry& expiry : all.take_expired(clock))
      numbers.push_back(expiry.name.number);
    return numbers;
  }
};

TEST_CASE("timers expire in the order of their moments, and once") {
  Timers timers;
  timers.timer(300, 0);
  timers.timer(100, 0);
  timers.timer(300, 0);
  CHECK(timers.all.first_ns() == 100);
  timers.clock.retire(99);
  CHECK(timers.expired().empty());
  timers.clock.retire(300);
  CHECK(timers.expired() == std::vector{1, 0, 2});
  CHECK(timers.expired().empty());
  CHECK_FALSE(timers.all.any_armed());
}

TEST_CASE("an interval is counted from moment to moment") {
  Timers timers;
  VirtualTimer& timer = timers.timer(1000, 400);
  timers.clock.retire(1900);
  const auto expired = timers.all.take_expired(timers.clock);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].times == 3);
  CHECK(timer.until_ns == 2200);
  CHECK(VirtualTimers::setting(timer, timers.clock).left_ns == 300);
  CHECK(VirtualTimers::setting(timer, timers.clock).interval_ns == 400);
  timers.all.arm(timer, 0, 0);
  CHECK_FALSE(timers.all.first_ns());
}

TEST_CASE("a short interval is not looked at each time") {
  Timers timers;
  timers.timer(1000, 2);
  CHECK(timers.all.first_ns() == 1000);
  timers.clock.retire(1000);
  CHECK(timers.expired().size() == 1);
  CHECK(timers.all.first_ns() == 1000 + VirtualTimers::kLeastStep_ns);
  timers.clock.sleep_until(1000 + VirtualTimers::kLeastStep_ns);
  const auto expired = timers.all.take_expired(timers.clock);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].times == VirtualTimers::kLeastStep_ns / 2);
}

TEST_CASE("sleeps are no processor time") {
  Timers timers;
  timers.timer(kSecond_ns, 0, true);
  timers.timer(kSecond_ns, 0);
  CHECK(timers.all.first_ns() == kSecond_ns);
  timers.clock.sleep_until(kSecond_ns);
  CHECK(timers.expired() == std::vector{1});
  CHECK_FALSE(timers.all.first_ns());
  CHECK(timers.all.any_armed());
  timers.clock.retire(kSecond_ns);
  CHECK(timers.expired() == std::vector{0});
}

TEST_CASE("an execve ends timers with ids, an exit all but those that may be open elsewhere") {
  Timers timers;
  timers.timer(1, 0);
  const TimerName interval{Kind::interval, kProcess.value, 0}, open{Kind::descriptor, 0, 1};
  timers.all.add(interval, {});
  timers.all.add(open, {});
  timers.all.executed(Tid(8));
  CHECK(timers.all.any_armed());
  timers.all.executed(kProcess);
  CHECK_FALSE(timers.all.any_armed());
  CHECK(timers.all.find(interval) != nullptr);
  timers.all.ended(kProcess);
  CHECK(timers.all.find(interval) == nullptr);
  CHECK(timers.all.find(open) != nullptr);
}

}  // namespace
}  // namespace shadowprof::inject
