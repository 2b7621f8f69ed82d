// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "../child_process.h"
#include "inject/guest_process.h"
#include "inject/guest_thread.h"
#include "inject/thread_state.h"
#include "kernel/proc.h"

namespace shadowprof::inject {
namespace {

using namespace std::chrono_literals;

// Sleeps, and wakes for a moment at each SIGUSR1.
class Sleeper {
 public:
  Sleeper()
      : child_([] {
          ::signal(SIGUSR1, [](int) {});
          for (;;) ::pause();
        }) {
    while (kernel::read_state(tid()).value_or('S') != 'S') std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
  }

  Tid tid() const { return child_.tid(); }
  uint64_t runs() const {
    const auto times = kernel::read_schedstat(tid());
    return times ? times->runs : 0;
  }
  void wake() const {
    const uint64_t before = runs();
    ::kill(tid().value, SIGUSR1);
    while (runs() == before) std::this_thread::sleep_for(1ms);
  }

 private:
  test::ChildProcess child_;
};

TEST_CASE("a sleep lasts as long as its thread has not run") {
  const Sleeper sleeper;
  if (sleeper.runs() == 0) {
    MESSAGE("skip: this kernel does not count runs");
    return;
  }
  GuestProcess process(sleeper.tid());
  const GuestThread thread(sleeper.tid(), process, ptrace::TraceOptions{});
  LastingSleep sleep;
  CHECK_FALSE(sleep.lasts(thread, 'S', 20ms));
  std::this_thread::sleep_for(30ms);
  CHECK_FALSE(sleep.lasts(thread, 'S', 1h));
  CHECK(sleep.lasts(thread, 'S', 20ms));

  sleeper.wake();
  CHECK_FALSE(sleep.lasts(thread, 'D', 20ms));  // another one begins
  std::this_thread::sleep_for(30ms);
  CHECK(sleep.lasts(thread, 'D', 20ms));
  CHECK_FALSE(sleep.lasts(thread, 'R', 20ms));
  CHECK_FALSE(sleep.lasts(thread, 'S', 20ms));
}

}  // namespace
}  // namespace shadowprof::inject
