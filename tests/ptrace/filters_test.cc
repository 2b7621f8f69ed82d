// SPDX-License-Identifier: MIT
#include "ptrace/filters.h"

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <ctime>
#include <thread>
#include <vector>

#include "guest.h"
#include "ptrace/interruption.h"
#include "ptrace/remote_syscall.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

sock_filter statement(unsigned code, uint32_t k) {
  return {static_cast<uint16_t>(code), 0, 0, k};
}

// Allows these calls, and has this answer for all others.
std::vector<sock_filter> allowing(std::initializer_list<long> calls, uint32_t verdict) {
  std::vector<sock_filter> code{statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (long nr : calls) {
    code.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<uint32_t>(nr)});
    code.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  code.push_back(statement(BPF_RET | BPF_K, verdict));
  return code;
}

bool install(std::vector<sock_filter> code, unsigned flags = 0) {
  const sock_fprog program{static_cast<uint16_t>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

bool may_suspend() {
  if (::geteuid() == 0 && status_field(Tid(::getpid()), "Seccomp") == "0") return true;
  MESSAGE("skipped: filters are suspended by root only, below no filter");
  return false;
}

uint32_t verdict_on(const std::vector<sock_filter>& code, int nr, uint64_t argument = 0) {
  seccomp_data call{};
  call.nr = nr;
  call.arch = AUDIT_ARCH_X86_64;
  call.args[1] = argument;
  return judge(code, call).value();
}

// The registers of one that was seized, and sleeps in a call that restart_syscall(2) would
// continue.
Registers stopped_in_sleep(Guest& guest) {
  guest.await_ready();
  guest.await_sleep();
  guest.stop();
  const Registers registers = guest.tracee().must_get_registers();
  REQUIRE(static_cast<int64_t>(registers.rax) == machine::kRestartBlock);
  return registers;
}

}  // namespace

TEST_CASE("a filter says here what it says in the kernel") {
  const auto list = allowing({SYS_write, SYS_exit}, SECCOMP_RET_KILL_PROCESS);
  CHECK(verdict_on(list, SYS_write) == SECCOMP_RET_ALLOW);
  CHECK(verdict_on(list, SYS_exit) == SECCOMP_RET_ALLOW);
  CHECK(verdict_on(list, SYS_restart_syscall) == SECCOMP_RET_KILL_PROCESS);
  // By an argument's upper half, through scratch memory, arithmetic and the index register.
  const std::vector<sock_filter> code = {
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1]) + 4),
      statement(BPF_ALU | BPF_RSH | BPF_K, 4),
      statement(BPF_ST, 3),
      statement(BPF_LDX | BPF_MEM, 3),
      statement(BPF_LD | BPF_W | BPF_LEN, 0),
      statement(BPF_ALU | BPF_ADD | BPF_X, 0),
      {BPF_JMP | BPF_JGT | BPF_K, 1, 0, 66},
      statement(BPF_JMP | BPF_JA, 1),
      statement(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      statement(BPF_MISC | BPF_TXA, 0),
      statement(BPF_RET | BPF_A, 0),
  };
  CHECK(verdict_on(code, 0, uint64_t{0x20} << 32) == 2);  // 64 + 2 is not more than 66
  CHECK(verdict_on(code, 0, uint64_t{0x30} << 32) == SECCOMP_RET_TRAP);
  seccomp_data call{};
  CHECK_FALSE(judge({}, call).has_value());
  CHECK_FALSE(judge(std::vector{statement(BPF_LD | BPF_B | BPF_ABS, 0xfff)}, call).has_value());
}

TEST_CASE("remote calls are not judged by the program's filters, whatever these would do") {
  if (!can_trace() || !may_suspend()) return;
  Watchdog watchdog;
  for (uint32_t verdict : {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                           SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRACE}) {
    CAPTURE(verdict);
    Guest guest([&](Shared& shared) {
      if (!install(allowing({SYS_exit_group}, verdict))) ::_exit(9);
      spin(shared);
    });
    Tracee tracee = guest.seize_ready();
    for (int i = 0; i < 2; i++) {
      RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
      CHECK(remote.call(SYS_getpid).value() == guest.pid());
      CHECK(remote.get_sigaction(SIGUSR1).has_value());
      CHECK(remote.finish().has_value());
    }
    CHECK(guest.finish(tracee).exit_code() == 0);
  }
}

TEST_CASE("a sleep is not ended by a call that the filters refuse") {
  if (!can_trace()) return;
  Watchdog watchdog;
  for (bool may_restart : {false, true}) {
    CAPTURE(may_restart);
    Guest guest([&](Shared& shared) {
      const auto code = allowing(
          {SYS_clock_nanosleep, SYS_exit_group, may_restart ? SYS_restart_syscall : SYS_exit_group},
          SECCOMP_RET_KILL_PROCESS);
      if (!install(code)) ::_exit(9);
      shared.ready = 1;
      const timespec nap{0, 300'000'000};
      shared.result = ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    });
    const Tracee tracee = guest.seize();
    Registers registers = stopped_in_sleep(guest);
    const bool is_known = ::geteuid() == 0 && may_restart;
    if (may_suspend()) CHECK(lets_restart(tracee, registers) == is_known);
    CHECK(conceal_interruption(tracee, registers) != is_known);
    tracee.must_set_registers(registers);
    CHECK(guest.finish(tracee).exit_code() == 0);
    CHECK(guest.shared().result == 0);
  }
}

TEST_CASE("a sleep that begins anew is not ended by filters that come while its thread stands") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    std::thread other([&shared] {
      while (shared.go == 0) ::usleep(1000);
      const std::vector<sock_filter> code{
          statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_restart_syscall},
          statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
          statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
      shared.count = install(code, SECCOMP_FILTER_FLAG_TSYNC) ? 1 : 2;
    });
    shared.ready = 1;
    const timespec nap{0, 300'000'000};
    shared.result = ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    other.join();
  });
  const Tracee tracee = guest.seize();
  Registers registers = stopped_in_sleep(guest);
  CHECK(begin_sleep_anew(registers));
  CHECK(!begin_sleep_anew(registers));
  tracee.must_set_registers(registers);
  guest.shared().go = 1;
  while (guest.shared().count == 0) ::usleep(1000);
  CHECK(guest.shared().count == 1);
  CHECK(guest.finish(tracee).exit_code() == 0);
  CHECK(guest.shared().result == 0);
}
