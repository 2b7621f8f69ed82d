// SPDX-License-Identifier: MIT
//
// Ticks of children with known habits, and where code is as time goes on.
#include "clock/cpu_clock.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <functional>
#include <optional>
#include <thread>

#include "../child_process.h"
#include "base/pipe.h"
#include "clock/code_map.h"
#include "clock/time_account.h"
#include "profile/profile.h"

using namespace shadowprof;
using namespace shadowprof::clock;

namespace {

// No multiple of it is one of the 4 ms, or the like, that schedulers give a thread at a time: where
// others wait for the processor, ticks of processors would find the same thread again and again.
constexpr std::chrono::nanoseconds kPeriod{1'030'000};

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

__attribute__((noinline)) void spin(double seconds) {
  const double end = cpu_seconds() + seconds;
  while (cpu_seconds() < end) {
    for (int i = 0; i < 10000; i++) __asm__ volatile("");
  }
}

// A child that begins its work when it is told to. Its own beginning, which may take milliseconds,
// is over.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    Pipe ready;
    REQUIRE(gate_.open());
    REQUIRE(ready.open());
    char c = 0;
    child_.emplace([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::write(ready.writer.get(), "x", 1) == 1 && ::read(gate_.reader.get(), &c, 1) == 1)
        work();
    });
    ready.writer.reset();
    REQUIRE(::read(ready.reader.get(), &c, 1) == 1);
  }
  Tid pid() const { return child_->tid(); }
  void go() { REQUIRE(::write(gate_.writer.get(), "x", 1) == 1); }
  void wait_for_end() const { child_->await_end(); }

 private:
  Pipe gate_;
  std::optional<test::ChildProcess> child_;
};

// A case that calls it runs once for each.
EventsOf each_kind() {
  EventsOf kind = EventsOf::processors;
  SUBCASE("of processors") {}
  SUBCASE("of threads") {
    kind = EventsOf::threads;
  }
  return kind;
}

kernel::Mapping code_at(uint64_t start, uint64_t end, const char* path, uint64_t inode) {
  kernel::Mapping m;
  m.range = {GuestAddr(start), GuestAddr(end)};
  m.executable = true;
  m.path = path;
  m.inode = inode;
  return m;
}

// From its first work to its end.
profile::Profile profile_of(Child& child, CpuClock& clock) {
  TimeAccount account;
  REQUIRE(clock.watch(child.pid()));
  account.begin(child.pid());
  child.go();
  child.wait_for_end();
  for (const ClockEvent& event : clock.drain()) account.add(event);
  profile::Profile profile;
  account.finish(profile);
  return profile;
}

}  // namespace

TEST_CASE("a child's processor time is told in ticks, by place and thread") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(kPeriod, whose);
  if (!clock) {
    MESSAGE("skip: ", clock.error().message);
    return;
  }
  Child child([] { spin(0.5); });
  const profile::Profile profile = profile_of(child, *clock);
  REQUIRE(profile.threads.size() == 1);
  const profile::ThreadRow& thread = profile.threads.front();
  CHECK(thread.tid == child.pid().value);
  CHECK(static_cast<double>(thread.user_ns + thread.kernel_ns) > 0.4e9);
  CHECK(static_cast<double>(thread.user_ns + thread.kernel_ns) < 0.7e9);
  uint64_t of_rows = 0;
  for (const profile::TimeRow& row : profile.tables.time) of_rows += row.user_ns + row.kernel_ns;
  CHECK(static_cast<double>(of_rows) > 0.9 * static_cast<double>(thread.user_ns));
  uint64_t of_moments = 0;
  for (const profile::CourseRow& row : profile.tables.course)
    of_moments += row.user_ns + row.kernel_ns;
  CHECK(of_moments == of_rows);
  const uint64_t slices = profile.tables.course.back().slice + 1;
  CHECK(static_cast<double>(1000 * profile.time.slice_us * slices) > 0.4e9);
  CHECK(clock->lost() == 0);
}

TEST_CASE("a thread that is nearly gone has no id, and no row") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(std::chrono::microseconds(100), whose);
  if (!clock) return;
  Child child([] {
    for (int i = 0; i < 2000; i++) std::thread([] {}).join();
  });
  const profile::Profile profile = profile_of(child, *clock);
  CHECK(!profile.threads.empty());
  for (const profile::ThreadRow& thread : profile.threads) CHECK(thread.tid > 0);
}

TEST_CASE("a clock with another period says of each tick what it stands for") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(kPeriod, whose);
  if (!clock) return;
  Child child([] { spin(0.5); });
  REQUIRE(clock->watch(child.pid()));
  REQUIRE(clock->set_period(4 * kPeriod));
  CHECK(clock->period() == 4 * kPeriod);
  child.go();
  child.wait_for_end();
  uint64_t sum_ns = 0, ticks = 0, early = 0;
  for (const ClockEvent& event : clock->drain()) {
    const Tick* tick = std::get_if<Tick>(&event.what);
    if (tick == nullptr) continue;
    early += tick->ns < static_cast<uint64_t>((4 * kPeriod).count());
    sum_ns += tick->ns;
    ticks++;
  }
  CHECK(early <= 1);  // before it was told to go
  CHECK(ticks > 50);
  CHECK(ticks <= 140);
  CHECK(static_cast<double>(sum_ns) > 0.4e9);
}

TEST_CASE("a paused clock tells nothing, and one that goes on does") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(kPeriod, whose);
  if (!clock) return;
  Child child([] { spin(60); });
  REQUIRE(clock->watch(child.pid()));
  clock->pause();
  child.go();
  ::usleep(200'000);
  const auto ticks = [&] {
    size_t n = 0;
    for (const ClockEvent& event : clock->drain()) n += std::holds_alternative<Tick>(event.what);
    return n;
  };
  CHECK(ticks() == 0);
  clock->go_on();
  size_t seen = 0;
  for (int i = 0; i < 100 && seen == 0; i++) {
    ::usleep(50'000);
    seen += ticks();
  }
  CHECK(seen > 0);
}

TEST_CASE("a paused clock tells what is mapped") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(kPeriod, whose);
  if (!clock) return;
  Child child([] {
    (void)::mmap(nullptr, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  });
  REQUIRE(clock->watch(child.pid()));
  clock->pause();
  child.go();
  child.wait_for_end();
  size_t megabytes = 0;
  for (const ClockEvent& event : clock->drain()) {
    if (const auto* mapped = std::get_if<Mapped>(&event.what))
      megabytes += mapped->mapping.range.size() == 1 << 20;
  }
  CHECK(megabytes == 1);
}

TEST_CASE("processes of a child's own are not watched") {
  const auto whose = each_kind();
  auto clock = CpuClock::open(kPeriod, whose);
  if (!clock) return;
  Child child([] {
    if (::fork() == 0) {
      spin(0.1);
      ::_exit(0);
    }
    ::wait(nullptr);
  });
  TimeAccount account;
  REQUIRE(clock->watch(child.pid()));
  account.begin(child.pid());
  child.go();
  child.wait_for_end();
  for (const ClockEvent& event : clock->drain()) account.add(event);
  CHECK(account.ticks() < 50);
}

TEST_CASE("a process that was forgotten is not told of, nor one that was never watched") {
  auto clock = CpuClock::open(kPeriod, each_kind());
  if (!clock) return;
  Child watched([] { spin(0.2); });
  Child other([] { spin(0.2); });
  Child forgotten([] { spin(0.2); });
  REQUIRE(clock->watch(watched.pid()));
  REQUIRE(clock->watch(forgotten.pid()));
  for (Child* child : {&watched, &other, &forgotten}) child->go();
  for (const Child* child : {&watched, &other, &forgotten}) child->wait_for_end();
  clock->forget(forgotten.pid());
  size_t ticks = 0;
  for (const ClockEvent& event : clock->drain()) {
    std::visit([&](const auto& what) { CHECK(what.process == watched.pid()); }, event.what);
    ticks += std::holds_alternative<Tick>(event.what);
  }
  CHECK(ticks > 50);
}

TEST_CASE("processes that have ended keep nothing from being watched") {
  constexpr int kProcesses = 1100;
  auto clock = CpuClock::open(kPeriod, EventsOf::threads);
  if (!clock) return;
  for (int i = 0; i < kProcesses; i++) {
    Child child([] {});
    const Status watched = clock->watch(child.pid());
    REQUIRE_MESSAGE(watched, i);
    child.go();
    child.wait_for_end();
    clock->forget(child.pid());
  }
}

TEST_CASE("what is mapped later covers what was there") {
  CodeMap map;
  profile::ModuleTable modules;
  map.add(code_at(0x10000, 0x20000, "/lib/a", 7), modules);
  map.add(code_at(0x14000, 0x15000, "/lib/b", 8), modules);
  map.add(code_at(0x1f000, 0x21000, "", 0), modules);
  REQUIRE(modules.size() == 3);
  CHECK(map.find(GuestAddr(0x13fff)) == profile::CodeRef{0, 0x3fff});
  CHECK(map.find(GuestAddr(0x14000)) == profile::CodeRef{1, 0});
  CHECK(map.find(GuestAddr(0x15000)) == profile::CodeRef{0, 0x5000});
  CHECK(map.find(GuestAddr(0x1efff)) == profile::CodeRef{0, 0xefff});
  CHECK(map.find(GuestAddr(0x20fff)) == profile::CodeRef{2, 0x20fff});
  CHECK(!map.find(GuestAddr(0x21000)));
  CHECK(!map.find(GuestAddr(0xffff)));
  map.clear();
  CHECK(!map.find(GuestAddr(0x14000)));
}

TEST_CASE("an exec forgets what was mapped, and gives the thread its name") {
  TimeAccount account;
  account.begin(Tid(::getpid()));
  const Tid self(::getpid());
  account.add({1, Named{self, self, "new name", true}});
  account.add({2, Mapped{self, code_at(0x10000, 0x20000, "/lib/a", 7)}});
  account.add({3, Tick{self, self, GuestAddr(0x10004), false, 1000}});
  account.add({4, Tick{self, self, GuestAddr(reinterpret_cast<uint64_t>(&spin)), false, 500}});
  account.add({5, Tick{Tid(1), Tid(1), GuestAddr(0x10004), false, 500}});
  CHECK(account.ticks() == 2);
  profile::Profile profile;
  account.finish(profile);
  REQUIRE(profile.threads.size() == 1);
  CHECK(profile.threads[0].name == "new name");
  CHECK(profile.threads[0].user_ns == 1500);
  REQUIRE(profile.tables.time.size() == 1);
  CHECK(profile.tables.time[0].at.offset == 4);
  CHECK(profile.tables.time[0].user_ns == 1000);
}
