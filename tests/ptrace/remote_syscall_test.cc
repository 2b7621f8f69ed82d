// SPDX-License-Identifier: MIT
#include "ptrace/remote_syscall.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "guest.h"
#include "ptrace/wait.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

TEST_CASE("remote calls work in a thread that computes, and leave its registers alone") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  const Registers before = tracee.must_get_registers();
  ExtendedState vectors_before;
  REQUIRE(tracee.get_extended_state_if_alive(vectors_before));
  RemoteMemory memory(guest.tid());
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);

  const GuestAddr at =
      remote.mmap(GuestAddr(), 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS).value();
  REQUIRE(memory.write_value(at, uint64_t{0xfeed}).has_value());
  CHECK(remote.mprotect(at, 4096, PROT_READ).has_value());
  CHECK_FALSE(memory.write_value(at, 1).has_value());
  CHECK(remote.madvise(at + 4096, 4096, MADV_DONTNEED).has_value());
  CHECK(remote.munmap(at, 8192).has_value());
  CHECK_FALSE(memory.read_value<int>(at).has_value());

  std::vector<uint8_t> stack(4096);
  REQUIRE(memory.read(before.sp() - 4096, stack).has_value());
  const int fd = remote.openat(AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC).value();
  CHECK(remote.close(fd).has_value());
  CHECK(remote.openat(AT_FDCWD, "/nowhere/at/all", O_RDONLY).error().errno_value == ENOENT);
  CHECK(remote.close(987).error().errno_value == EBADF);
  CHECK(remote.call(SYS_close, -1).value() == -EBADF);
  CHECK(remote.get_sigaction(SIGUSR1).value().handler == 0);
  CHECK(remote.rt_sigaction(SIGUSR1, {1, 0, 0, 0}).value().handler == 0);
  CHECK(remote.rt_sigaction(SIGUSR1, {0, 0, 0, 0}).value().handler == 1);
  std::vector<uint8_t> stack_after(4096);
  REQUIRE(memory.read(before.sp() - 4096, stack_after).has_value());
  CHECK(stack_after == stack);

  REQUIRE(remote.finish().has_value());
  CHECK(tracee.must_get_registers() == before);
  ExtendedState vectors_after;
  REQUIRE(tracee.get_extended_state_if_alive(vectors_after));
  CHECK(vectors_after == vectors_before);
  CHECK(guest.finish(tracee).exit_code() == 0);
}

TEST_CASE("a series of no calls touches nothing") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  CHECK(remote.finish().value().is_event(StopEvent::stop));
}

TEST_CASE("a wrong instruction address is an error and the thread is put back") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  const Registers before = tracee.must_get_registers();
  {
    RemoteSyscalls remote(tracee, GuestAddr(0x10), kPlain);
    std::vector<siginfo_t> deferred;
    remote.keep_signals_in(deferred);
    CHECK_FALSE(remote.call(SYS_getpid).has_value());
    CHECK(remote.finish().has_value());
    CHECK(deferred.empty());
  }
  CHECK(tracee.must_get_registers() == before);
  CHECK(guest.finish(tracee).exit_code() == 0);
}

TEST_CASE("remote calls at a syscall entry stop leave the program's call to be made") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    spin(shared);
    shared.result = ::syscall(SYS_dup2, 2, 77);
  });
  Tracee tracee = guest.seize_ready();
  guest.shared().go = 1;
  REQUIRE(tracee.syscall_if_alive());
  REQUIRE(guest.wait().kind() == WaitStatus::Kind::syscall_stop);
  const Registers before = tracee.must_get_registers();
  REQUIRE(before.orig_rax == SYS_dup2);
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  std::vector<siginfo_t> deferred;
  remote.keep_signals_in(deferred);
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  CHECK(remote.call(SYS_close, 77).value() == -EBADF);  // not made yet
  ::kill(guest.pid(), SIGUSR1);
  REQUIRE(remote.finish().value().kind() == WaitStatus::Kind::syscall_stop);
  CHECK(tracee.must_get_registers() == before);
  Tracee::SyscallStopInfo info;
  REQUIRE(tracee.get_syscall_stop_if_alive(info));
  CHECK(info.which == Tracee::SyscallStop::entry);
  CHECK(deferred.empty());
  REQUIRE(tracee.cont_if_alive());
  CHECK(guest.wait().is_signal_stop(SIGUSR1));
  CHECK(static_cast<int64_t>(tracee.must_get_registers().rax) == 77);
  REQUIRE(tracee.cont_if_alive(0));
  CHECK(guest.run_to_end().exit_code() == 0);
  CHECK(guest.shared().result == 77);
}

TEST_CASE("remote calls at clone events and in the new thread do not disturb either") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin_and_make_thread);
  Tracee tracee = guest.seize(TraceOptions::follow_clone);
  guest.await_ready();
  const Tid thread = guest.await_thread();
  for (Tid tid : {guest.tid(), thread}) {
    RemoteSyscalls remote(Tracee(tid), syscall_insn(), kPlain | TraceOptions::follow_clone);
    CHECK(remote.call(SYS_gettid).value() == tid.value);
    CHECK(remote.finish().has_value());
  }
  REQUIRE(Tracee(thread).cont_if_alive());
  REQUIRE(tracee.cont_if_alive());
  CHECK(wait_for(thread).status.is_dead());
  CHECK(guest.run_to_end().exit_code() == 0);
  CHECK(guest.shared().result == thread.value);
  CHECK(guest.shared().error == 0);
}

TEST_CASE("a remote fork makes a child that can execute calls, too") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee =
      guest.seize(TraceOptions::follow_fork | TraceOptions::follow_clone | TraceOptions::exit_kill);
  guest.await_ready();
  guest.stop();
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain | TraceOptions::follow_clone);
  const int64_t child = remote.call(SYS_clone, 0, 0, 0, 0, 0).value();  // exit signal 0
  REQUIRE(child > 0);
  CHECK(remote.child_of_last_call().value == child);
  REQUIRE(remote.finish().has_value());
  const Tid replica(static_cast<int32_t>(child));
  REQUIRE(wait_for(replica).status.is_event(StopEvent::stop));
  {
    RemoteSyscalls inside(Tracee(replica), syscall_insn(), kPlain);
    CHECK(inside.call(SYS_getppid).value() == guest.pid());
  }
  ::kill(replica.value, SIGKILL);
  CHECK(wait_for(replica).status.is_dead());
  // The parent still has the zombie, and may not be told of it by an ordinary wait.
  RemoteSyscalls reap(tracee, syscall_insn(), kPlain);
  CHECK(reap.call(SYS_wait4, -1, 0, WNOHANG, 0).value() == -ECHILD);
  CHECK(reap.call(SYS_wait4, child, 0, WNOHANG | __WALL, 0).value() == child);
  CHECK(reap.finish().has_value());
}

TEST_CASE("an interrupted rseq critical section is still there after remote calls") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  GuestAddr rseq;
  REQUIRE(tracee.get_rseq_if_alive(rseq));
  if (rseq == GuestAddr()) {
    MESSAGE("skipped: no rseq here");
    return;
  }
  RemoteMemory memory(guest.tid());
  const Registers registers = tracee.must_get_registers();
  // A section somewhere else: the kernel would forget it when the thread next runs.
  RemoteSyscalls setup(tracee, syscall_insn(), kPlain);
  const GuestAddr section =
      setup.mmap(GuestAddr(), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS).value();
  REQUIRE(setup.finish().has_value());
  // version and flags, start, length, abort address; the kernel looks for the signature before
  // that.
  const uint64_t words[4] = {0, 0x1000, 16, section.value + 64};
  REQUIRE(memory.write_value(section, words).has_value());
  REQUIRE(memory.write_value(section + 60, uint32_t{RSEQ_SIG}).has_value());
  REQUIRE(memory.write_value(rseq + 8, section.value).has_value());
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  // The kernel clears it only if something made it look; sched_yield does.
  CHECK(remote.call(SYS_sched_yield).value() == 0);
  REQUIRE(remote.finish().has_value());
  CHECK(memory.read_value<uint64_t>(rseq + 8).value() == section.value);
  CHECK(tracee.must_get_registers() == registers);
}

namespace {

// Reads reports until the process is dead; exit events and others are run through.
WaitStatus reap(Tracee tracee) {
  for (;;) {
    const WaitOutcome outcome = wait_for(tracee.tid());
    if (!outcome.has_status()) continue;
    if (outcome.status.is_dead()) return outcome.status;
    (void)tracee.cont_if_alive();
  }
}

}  // namespace

TEST_CASE("SIGKILL at any moment of remote calls is an error, and the death is still reported") {
  if (!can_trace()) return;
  Watchdog watchdog(100);
  std::mt19937 random(1);
  int calls = 0;
  for (int round = 0; round < 150; ++round) {
    Guest guest(spin);
    const bool report_exit = round % 2 == 0;
    Tracee tracee = guest.seize(report_exit ? TraceOptions::report_exit : TraceOptions::none);
    guest.await_ready();
    guest.stop();
    const int delay_us = static_cast<int>(random() % 2000);
    std::thread killer([&] {
      const int64_t end = now_ns() + delay_us * int64_t{1000};
      while (now_ns() < end) {
      }
      ::kill(guest.pid(), SIGKILL);
    });
    for (bool alive = true; alive;) {
      RemoteSyscalls remote(tracee, syscall_insn(),
                            report_exit ? kPlain | TraceOptions::report_exit : kPlain);
      for (int i = 0; i < 3 && alive; ++i) {
        const Result<int64_t> pid = remote.call(SYS_getpid);
        alive = pid.has_value();
        if (alive)
          CHECK(*pid == guest.pid());
        else
          CHECK(pid.error().errno_value == ESRCH);
        ++calls;
      }
      alive = remote.finish().has_value() && alive;
    }
    killer.join();
    const WaitStatus end = reap(tracee);
    CHECK(end.kind() == WaitStatus::Kind::killed);
    CHECK(end.signal() == SIGKILL);
  }
  MESSAGE(calls << " remote calls in 150 processes");
}

TEST_CASE("another thread's exit_group during remote calls is an error, not a hang") {
  if (!can_trace()) return;
  Watchdog watchdog(60);
  for (int round = 0; round < 30; ++round) {
    Guest guest([](Shared& shared) {
      std::thread([&shared] {
        shared.ready = 1;
        while (shared.go == 0) {
        }
        ::syscall(SYS_exit_group, 33);
      }).detach();
      for (;;) ::pause();
    });
    Tracee tracee = guest.seize();
    guest.await_ready();
    guest.await_sleep();
    guest.stop();
    guest.shared().go = 1;
    bool alive = true;
    while (alive) {
      RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
      alive = remote.call(SYS_getpid).has_value() && remote.finish().has_value();
    }
    CHECK(reap(tracee).exit_code() == 33);
  }
}
