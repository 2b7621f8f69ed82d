// SPDX-License-Identifier: MIT
#include "ptrace/wait_status.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

using namespace shadowprof::ptrace;
using Kind = WaitStatus::Kind;

namespace {

// The numbers are the kernel's interface (ptrace(2)), written out so that the test does not share a
// mistake with the code.
constexpr int stopped(int code) {
  return (code << 8) | 0x7f;
}

struct Row {
  int raw;
  Kind kind;
  int value;
  StopEvent event;
  bool core;
  const char* text;
};

const Row kRows[] = {
    {0x0000, Kind::exited, 0, StopEvent::none, false, "exited with 0"},
    {0x2a00, Kind::exited, 42, StopEvent::none, false, "exited with 42"},
    {0xff00, Kind::exited, 255, StopEvent::none, false, "exited with 255"},
    {0x0009, Kind::killed, SIGKILL, StopEvent::none, false, "killed by SIGKILL"},
    {0x008b, Kind::killed, SIGSEGV, StopEvent::none, true, "killed by SIGSEGV (core dumped)"},
    {64, Kind::killed, 64, StopEvent::none, false, "killed by signal 64"},
    {stopped(SIGINT), Kind::signal_stop, SIGINT, StopEvent::none, false, "stopped for SIGINT"},
    {stopped(SIGTRAP), Kind::signal_stop, SIGTRAP, StopEvent::none, false, "stopped for SIGTRAP"},
    {stopped(SIGSTOP), Kind::signal_stop, SIGSTOP, StopEvent::none, false, "stopped for SIGSTOP"},
    {stopped(0x85), Kind::syscall_stop, SIGTRAP, StopEvent::none, false, "system call stop"},
    {stopped(0x105), Kind::event, SIGTRAP, StopEvent::fork, false, "fork event"},
    {stopped(0x205), Kind::event, SIGTRAP, StopEvent::vfork, false, "vfork event"},
    {stopped(0x305), Kind::event, SIGTRAP, StopEvent::clone, false, "clone event"},
    {stopped(0x405), Kind::event, SIGTRAP, StopEvent::exec, false, "exec event"},
    {stopped(0x505), Kind::event, SIGTRAP, StopEvent::vfork_done, false, "vfork done event"},
    {stopped(0x605), Kind::event, SIGTRAP, StopEvent::exit, false, "exit event"},
    {stopped(0x705), Kind::event, SIGTRAP, StopEvent::seccomp, false, "seccomp event"},
    {stopped(0x8005), Kind::event, SIGTRAP, StopEvent::stop, false, "stop event"},
    {stopped(0x6305), Kind::event, SIGTRAP, StopEvent::unknown, false, "unknown event"},
    {stopped(0x8013), Kind::group_stop, SIGSTOP, StopEvent::none, false, "group stop by SIGSTOP"},
    {stopped(0x8014), Kind::group_stop, SIGTSTP, StopEvent::none, false, "group stop by SIGTSTP"},
};

}  // namespace

TEST_CASE("every kind of wait status is told apart") {
  for (const Row& row : kRows) {
    CAPTURE(row.raw);
    const WaitStatus status = WaitStatus::from_raw(row.raw);
    CHECK(status.kind() == row.kind);
    CHECK(status.signal() == row.value);
    CHECK(status.event() == row.event);
    CHECK(status.core_dumped() == row.core);
    CHECK(to_string(status) == row.text);
    CHECK(status.is_dead() == (row.kind == Kind::exited || row.kind == Kind::killed));
    CHECK(status.is_stop() != status.is_dead());
    CHECK(status.is_trap() == (row.kind == Kind::group_stop || row.event == StopEvent::stop));
  }
}

TEST_CASE("waitid and wait agree") {
  for (const Row& row : kRows) {
    CAPTURE(row.raw);
    siginfo_t report{};
    if (WIFEXITED(row.raw)) {
      report.si_code = CLD_EXITED;
      report.si_status = WEXITSTATUS(row.raw);
    } else if (WIFSIGNALED(row.raw)) {
      report.si_code = row.core ? CLD_DUMPED : CLD_KILLED;
      report.si_status = WTERMSIG(row.raw);
    } else {
      report.si_code = CLD_TRAPPED;
      report.si_status = row.raw >> 8;
    }
    CHECK(WaitStatus::from_waitid(report) == WaitStatus::from_raw(row.raw));
  }
}

TEST_CASE("the stop that a thread is in can be told from its siginfo") {
  for (const Row& row : kRows) {
    if (!WIFSTOPPED(row.raw)) continue;
    CAPTURE(row.raw);
    siginfo_t info{};
    info.si_signo = row.value;
    info.si_code = row.kind == Kind::signal_stop ? SI_USER : row.raw >> 8;
    CHECK(WaitStatus::from_stop_siginfo(info) == WaitStatus::from_raw(row.raw));
  }
  for (int code : std::initializer_list<int>{SI_QUEUE, SI_TKILL, SI_TIMER, SI_KERNEL, TRAP_TRACE}) {
    CAPTURE(code);
    siginfo_t info{};
    info.si_signo = SIGTRAP;
    info.si_code = code;
    CHECK(WaitStatus::from_stop_siginfo(info).is_signal_stop(SIGTRAP));
  }
}
