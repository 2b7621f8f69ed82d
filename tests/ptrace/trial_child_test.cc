// SPDX-License-Identifier: MIT
#include "ptrace/trial_child.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/die_with_parent.h"
#include "guest.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

TEST_CASE("a trial child stops by its own instruction, and ends where it does") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const pid_t self = ::getpid();
  TrialChild child(::fork());
  if (child.is_it()) {
    if (!TrialChild::be_traced(self)) ::_exit(1);
    asm volatile("int3; int3" ::: "memory");
    ::_exit(0);
  }
  REQUIRE(child.exists());
  REQUIRE(child.await_stop());
  CHECK(child.stopped_for() == SIGTRAP);
  REQUIRE(child.go_on());
  CHECK(child.stopped_for() == SIGTRAP);
  CHECK_FALSE(child.go_on());
  CHECK_FALSE(child.exists());
  CHECK_FALSE(child.go_on());
}

TEST_CASE("a trial child that lives ends with its owner, and is no zombie") {
  Watchdog watchdog;
  pid_t pid = 0;
  {
    const pid_t self = ::getpid();
    const TrialChild child(::fork());
    if (child.is_it()) {
      if (!die_with_parent(self)) ::_exit(1);
      for (;;) ::pause();
    }
    pid = child.tid().value;
  }
  CHECK(::kill(pid, 0) != 0);
  CHECK(errno == ESRCH);
}

TEST_CASE("without a child there is no stop") {
  TrialChild child(-1);
  CHECK_FALSE(child.exists());
  CHECK_FALSE(child.await_stop());
  CHECK_FALSE(child.go_on());
}
