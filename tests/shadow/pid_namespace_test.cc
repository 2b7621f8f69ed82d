// SPDX-License-Identifier: MIT
//
// A program in another PID namespace than we: its replicas are told what the program would be.
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>

#include "base/unique_fd.h"
#include "test_replica.h"

namespace shadowprof::shadow {
namespace {

// While it lives our children are born into a new namespace, of which the first is number 1.
class Namespace {
 public:
  Namespace() : is_new_(::unshare(CLONE_NEWPID) == 0) {}
  ~Namespace() {
    if (is_new_) CHECK(::setns(before_.get(), CLONE_NEWPID) == 0);
  }
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  bool is_new() const { return is_new_; }

 private:
  UniqueFd before_{::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)};
  bool is_new_;
};

TEST_CASE("a replica is told the numbers that the program has in its own PID namespace") {
  const Namespace its;
  if (!its.is_new()) {
    MESSAGE("not tried: making a PID namespace needs root");
    return;
  }
  const Twin init;
  auto program = std::make_unique<Twin>();
  const auto own = [](const Twin& twin) {
    return kernel::read_status(twin.tid()).value().innermost_pid.value;
  };
  REQUIRE(own(init) == 1);
  REQUIRE(own(*program) == 2);
  REQUIRE(program->tid().value != 2);
  SUBCASE("whose parent is there, too") {
    TestReplica replica(program->tid(), init.tid());
    CHECK(replica.answer(SYS_getppid, {}).value == 1);
    CHECK(replica.answer(SYS_getpid, {}).value == 2);
    CHECK(replica.answer(SYS_gettid, {}).value == 2);
    CHECK(replica.answer(SYS_set_tid_address, {}).value == 2);
    // What is asked of the program in its own namespace.
    CHECK(replica.answer(SYS_getpgrp, {}).value >= 0);
    CHECK(replica.answer(SYS_getpriority, {PRIO_PROCESS, 0}).value > 0);
    const auto scheduler = replica.answer(SYS_sched_getscheduler, {0});
    CHECK(scheduler.kind == SyscallAnswer::Kind::value);
    CHECK(scheduler.value == SCHED_OTHER);
  }
  SUBCASE("whose parent is not") {
    TestReplica replica(program->tid(), Tid(::getpid()));
    CHECK(replica.answer(SYS_getppid, {}).value == 0);
    CHECK(replica.answer(SYS_getpid, {}).value == 2);
  }
  SUBCASE("which has ended") {
    TestReplica replica(program->tid(), init.tid());
    program.reset();
    CHECK(replica.answer(SYS_getpid, {}).kind == SyscallAnswer::Kind::ends);
  }
}

TEST_CASE("a program in our PID namespace has our numbers, even when it has ended") {
  auto program = std::make_unique<Twin>();
  const Tid tid = program->tid();
  TestReplica replica(tid, Tid(::getpid()));
  program.reset();
  CHECK(replica.answer(SYS_getpid, {}).value == tid.value);
  CHECK(replica.answer(SYS_gettid, {}).value == tid.value);
  CHECK(replica.answer(SYS_getppid, {}).value == ::getpid());
}

}  // namespace
}  // namespace shadowprof::shadow
