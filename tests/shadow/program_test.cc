// SPDX-License-Identifier: MIT
#include "shadow/pause.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <vector>

#include "../child_process.h"
#include "kernel/proc.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/wait.h"
#include "shadow/replica.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

// A child that makes children all the time, one after another. Its forks take long.
class Parent {
 public:
  Parent() : pid_(::fork()) {
    if (pid_ != 0) return;
    const std::vector<char> memory(size_t{64} << 20, 1);
    for (;;) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      (void)::waitpid(child, nullptr, 0);
    }
  }
  Parent(const Parent&) = delete;
  Parent& operator=(const Parent&) = delete;
  Tid tid() const { return Tid(pid_); }
  // Ends with the child that it waits for.
  ~Parent() {
    ::kill(pid_, SIGKILL);
    for (;;) {
      const ptrace::WaitOutcome outcome = ptrace::wait_any();
      if (outcome.kind == ptrace::WaitOutcome::Kind::no_children) return;
      if (outcome.has_status() && !outcome.status.is_dead())
        (void)ptrace::Tracee(outcome.tid).cont_if_alive();
    }
  }

 private:
  pid_t pid_;
};

// For some time everybody goes on.
void serve(Program& program, std::chrono::microseconds time) {
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < time) {
    const ptrace::WaitOutcome outcome = ptrace::wait_any(ptrace::WaitMode::poll);
    if (!outcome.has_status()) continue;
    if (program.owns(outcome.tid))
      program.on_stop(outcome.tid, outcome.status);
    else if (!outcome.status.is_dead())
      (void)ptrace::Tracee(outcome.tid).cont_if_alive();
  }
}

// That the only thread of a program, which a pause has stopped, stands at making; 0: it does not.
Tid child_at_birth(Pause& pause) {
  uint64_t child = 0;
  if (pause.threads().empty()) return {};
  const PausedThread& thread = pause.threads().front();
  if (!thread.stop.is_event(ptrace::StopEvent::fork)) return {};
  if (!thread.tracee.get_event_message_if_alive(child)) return {};
  return Tid(static_cast<int32_t>(child));
}

}  // namespace

TEST_CASE("a pause that finds a thread at a fork makes its child known") {
  constexpr int kMostPauses = 2000;
  const Parent parent;
  Program program = Program::attach(parent.tid(), Follow::children).value();
  Tid child;
  for (int left = kMostPauses; left > 0 && child == Tid(); left--) {
    serve(program, std::chrono::microseconds(left * 37 % 2000));
    (void)program.take_children();
    Pause pause(program, Pause::Whom::one);
    child = child_at_birth(pause);
  }
  REQUIRE(child != Tid());
  const std::vector<Tid> noted = program.take_children();
  CHECK(std::ranges::find(noted, child) != noted.end());
}

TEST_CASE("a stop of the process that comes during a call of ours lasts") {
  const test::ChildProcess spinning([] {
    for (;;) getppid();
  });
  Program program = Program::attach(spinning.tid(), Follow::no).value();
  {
    ForkOptions options;
    options.mappings = kernel::read_maps(spinning.tid()).value();
    const GuestAddr syscall_insn = find_calls(spinning.tid(), options, {}).value();
    Pause pause(program, Pause::Whom::one);
    REQUIRE(pause.is_usable());
    PausedThread& thread = pause.threads().front();
    ::kill(spinning.tid().value, SIGSTOP);
    ptrace::RemoteSyscalls remote(thread.tracee, syscall_insn, program.options());
    remote.keep_signals_in(thread.deferred);
    CHECK(remote.call(SYS_getpid) == spinning.tid().value);
    REQUIRE(remote.finish());
  }
  const kernel::ScheduleTimes before = kernel::schedule_times_of(spinning.tid());
  serve(program, std::chrono::milliseconds(50));
  CHECK(kernel::schedule_times_of(spinning.tid()).used == before.used);
  ::kill(spinning.tid().value, SIGCONT);
  serve(program, std::chrono::milliseconds(50));
  CHECK(kernel::schedule_times_of(spinning.tid()).used > before.used);
}

}  // namespace shadowprof::shadow
