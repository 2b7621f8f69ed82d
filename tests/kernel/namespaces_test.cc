// SPDX-License-Identifier: MIT
#include "kernel/namespaces.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "../child_process.h"

namespace shadowprof::kernel {
namespace {

TEST_CASE("a child is in its parent's PID namespace") {
  const auto ours = pid_namespace_of(Tid(::getpid()));
  REQUIRE(ours);
  Tid ended;
  {
    const test::ChildProcess child([] {
      for (;;) ::pause();
    });
    CHECK(pid_namespace_of(child.tid()) == ours);
    ended = child.tid();
  }
  CHECK(!pid_namespace_of(ended));
}

TEST_CASE("who has made namespaces for its children is told from others") {
  CHECK_FALSE(has_namespaces_for_children(Tid(::getpid()), Tid(::gettid())));
  for (const int kind : {CLONE_NEWPID, 0x80 /* CLONE_NEWTIME */}) {
    for (const bool has_child : {false, true}) {
      std::array<int, 2> ready{}, done{};
      REQUIRE(::pipe(ready.data()) == 0);
      REQUIRE(::pipe(done.data()) == 0);
      const pid_t maker = ::fork();
      if (maker == 0) {
        const bool made = ::unshare(kind) == 0 || ::unshare(kind | CLONE_NEWUSER) == 0;
        char answer = made ? 'y' : 'n';
        const pid_t first = made && has_child ? ::fork() : -1;
        if (first != 0) (void)!::write(ready[1], &answer, 1);
        ::close(done[1]);
        (void)!::read(done[0], &answer, 1);
        ::_exit(0);
      }
      char answer = 0;
      REQUIRE(::read(ready[0], &answer, 1) == 1);
      if (answer == 'y') {
        CHECK(has_namespaces_for_children(Tid(maker), Tid(maker)));
      } else {
        MESSAGE("skip: no such namespaces here");
      }
      for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
      ::waitpid(maker, nullptr, 0);
    }
  }
}

}  // namespace
}  // namespace shadowprof::kernel
