// SPDX-License-Identifier: MIT
#include "ptrace/tracee.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "guest.h"
#include "ptrace/wait.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

void sleep_forever(Shared& shared) {
  shared.ready = 1;
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("registers read are registers written, orig_rax included") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(sleep_forever);
  Tracee tracee = guest.seize();
  guest.await_ready();
  guest.await_sleep();
  guest.stop();
  const Registers before = tracee.must_get_registers();
  CHECK(before.in_syscall());
  CHECK(before.restart_pending());
  CHECK(before.orig_rax == SYS_pause);

  Registers changed = before;
  uint64_t pattern = 0x1122334455667788;
  for (auto field :
       {&Registers::rax, &Registers::rbx, &Registers::rcx, &Registers::rdx, &Registers::rsi,
        &Registers::rdi, &Registers::rbp, &Registers::rsp, &Registers::r8, &Registers::r9,
        &Registers::r10, &Registers::r11, &Registers::r12, &Registers::r13, &Registers::r14,
        &Registers::r15, &Registers::rip}) {
    changed.*field = pattern++;
  }
  changed.orig_rax = machine::kNoSyscall;
  changed.fs_base = 0x7000;
  changed.gs_base = 0x8000;
  tracee.must_set_registers(changed);
  CHECK(tracee.must_get_registers() == changed);
  CHECK_FALSE(changed.in_syscall());
  tracee.must_set_registers(before);
  CHECK(tracee.must_get_registers() == before);

  changed.gs_base = 0x8000000000000000;
  CHECK_FALSE(tracee.try_set_registers(changed).has_value());
}

TEST_CASE("the extended state is complete and can be put back") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  ExtendedState state;
  REQUIRE(tracee.get_extended_state_if_alive(state));
  REQUIRE(state.size() >= 576);
  ExtendedState changed = state;
  std::memset(changed.data() + 160, 0x5a, 16);  // xmm0 in the legacy area
  changed[512] |= 2;                            // XSTATE_BV: SSE state is present
  REQUIRE(tracee.set_extended_state_if_alive(changed));
  ExtendedState again;
  REQUIRE(tracee.get_extended_state_if_alive(again));
  CHECK(std::memcmp(again.data() + 160, changed.data() + 160, 16) == 0);
  CHECK(again.size() == state.size());
}

TEST_CASE("the signal mask of a stopped thread can be read and set") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, 64);
    ::sigprocmask(SIG_SETMASK, &set, nullptr);
    spin(shared);
  });
  Tracee tracee = guest.seize_ready();
  SignalMask mask = 0;
  REQUIRE(tracee.get_signal_mask_if_alive(mask));
  CHECK(mask == (mask_of(SIGUSR1) | mask_of(64)));
  REQUIRE(tracee.set_signal_mask_if_alive(mask_of(SIGUSR2)));
  CHECK(std::stoull(status_field(guest.tid(), "SigBlk"), nullptr, 16) == mask_of(SIGUSR2));
}

TEST_CASE("a signal that waits for one thread is seen before it is reported") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  SignalMask pending = 1;
  REQUIRE(tracee.get_pending_signals_if_alive(pending));
  CHECK(pending == 0);
  REQUIRE(::syscall(SYS_tgkill, guest.pid(), guest.pid(), SIGSEGV) == 0);
  REQUIRE(tracee.get_pending_signals_if_alive(pending));
  CHECK(pending == mask_of(SIGSEGV));
}

TEST_CASE("a running or dead thread is reported as not alive, not as a crash") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize();
  guest.await_ready();
  Registers registers{};
  CHECK_FALSE(tracee.get_registers_if_alive(registers));
  CHECK(tracee.try_get_registers().error().errno_value == ESRCH);
  guest.stop();
  CHECK(tracee.get_registers_if_alive(registers));
  ::kill(guest.pid(), SIGKILL);
  CHECK(guest.run_to_end().signal() == SIGKILL);
  CHECK_FALSE(tracee.get_registers_if_alive(registers));
  CHECK_FALSE(tracee.interrupt_if_alive());
  CHECK_FALSE(tracee.cont_if_alive());
}

TEST_CASE("the current stop can be asked for at any time") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    shared.ready = 1;
    while (shared.go == 0) {
    }
    ::syscall(SYS_getppid);
    ::raise(SIGUSR1);
  });
  Tracee tracee = guest.seize(TraceOptions::report_exit);
  guest.await_ready();
  WaitStatus reported = WaitStatus::from_raw(0);
  const auto step_on = [&](bool resumed) {
    REQUIRE(resumed);
    reported = guest.wait();
    WaitStatus asked = WaitStatus::from_raw(0);
    REQUIRE(tracee.current_stop_if_alive(asked));
    CHECK(asked == reported);
  };
  step_on(tracee.interrupt_if_alive());
  guest.shared().go = 1;
  Tracee::SyscallStopInfo info;
  step_on(tracee.syscall_if_alive());
  REQUIRE(tracee.get_syscall_stop_if_alive(info));
  CHECK(info.which == Tracee::SyscallStop::entry);
  CHECK(info.is_x86_64);
  CHECK(tracee.must_get_registers().orig_rax == SYS_getppid);
  step_on(tracee.syscall_if_alive());
  REQUIRE(tracee.get_syscall_stop_if_alive(info));
  CHECK(info.which == Tracee::SyscallStop::exit);
  step_on(tracee.cont_if_alive());
  CHECK(reported.is_signal_stop(SIGUSR1));
  step_on(tracee.cont_if_alive(0));
  CHECK(reported.is_event(StopEvent::exit));
}

TEST_CASE("a group stop can be listened to, and its end is reported") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize();
  guest.await_ready();
  CHECK(guest.stop_group().signal() == SIGSTOP);
  REQUIRE(tracee.listen_if_alive());
  ::kill(guest.pid(), SIGCONT);
  CHECK(guest.wait().is_event(StopEvent::stop));
  REQUIRE(tracee.cont_if_alive());
  CHECK(guest.wait().is_signal_stop(SIGCONT));
}

TEST_CASE("a new thread is traced from its first instruction on") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin_and_make_thread);
  Tracee tracee = guest.seize(TraceOptions::follow_clone);
  guest.await_ready();
  const Tid thread = guest.await_thread();
  CHECK(guest.shared().result == 0);
  REQUIRE(Tracee(thread).cont_if_alive());
  REQUIRE(tracee.cont_if_alive());
  CHECK(wait_for(thread).status.is_dead());
  CHECK(guest.run_to_end().exit_code() == 0);
  CHECK(guest.shared().result == thread.value);
}

TEST_CASE("who traces already is named") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest target(spin);
  Guest tracer([&](Shared& shared) {
    (void)ptrace::seize(target.tid(), TraceOptions::none);
    sleep_forever(shared);
  });
  tracer.await_ready();
  const Result<Tracee> second = ptrace::seize(target.tid(), TraceOptions::none);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().message.find("being traced by pid " + std::to_string(tracer.pid())) !=
        std::string::npos);
}

TEST_CASE("the first thread's end is seen while another waits for us at its exit event") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    std::thread other([&] {
      shared.values[0] = ::gettid();
      shared.ready = 1;
      for (;;) ::pause();
    });
    for (;;) ::pause();
  });
  const Tracee first = guest.seize(TraceOptions::report_exit);
  guest.await_ready();
  const Tid other(static_cast<int32_t>(guest.shared().values[0]));
  REQUIRE(seize(other, TraceOptions::report_exit).has_value());
  guest.stop();
  ::kill(guest.pid(), SIGKILL);
  REQUIRE_FALSE(wait_for_stop(guest.tid()).has_value());  // its exit event is still there
  REQUIRE(first.cont_if_alive());
  for (const Patience patience : {Patience::endless, Patience::watchful}) {
    const auto gone = wait_for_stop(guest.tid(), patience);
    REQUIRE_FALSE(gone.has_value());
    CHECK(gone.error().errno_value == ESRCH);
  }
  CHECK_FALSE(wait_for_stop(other).has_value());
  WaitOutcome end;
  do {
    CHECK((!end.has_status() || Tracee(other).cont_if_alive()));
    end = wait_for(other);
  } while (end.has_status() && !end.status.is_dead());
  CHECK(end.has_status());
}

TEST_CASE("a thread that waits uninterruptibly is given up, and stops when its wait is over") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    const pid_t child = ::vfork();
    if (child == 0) {
      shared.ready = 1;
      while (shared.go == 0) {
      }
      ::_exit(0);
    }
    for (;;) ::pause();
  });
  const Tracee tracee = guest.seize();
  guest.await_ready();
  CHECK(tracee.interrupt_if_alive());
  const auto given_up = wait_for_stop(guest.tid(), Patience::bounded);
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().errno_value == EAGAIN);
  guest.shared().go = 1;
  const auto stop = wait_for_stop(guest.tid());
  REQUIRE(stop);
  CHECK(stop->is_event(StopEvent::stop));
}

TEST_CASE("a thread that does not stop in time is given up, and stops later all the same") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize();
  guest.await_ready();
  const auto in_vain =
      wait_for_stop(guest.tid(), Patience::bounded, std::chrono::steady_clock::now());
  REQUIRE_FALSE(in_vain.has_value());
  CHECK(in_vain.error().errno_value == ETIMEDOUT);
  REQUIRE(tracee.interrupt_if_alive());
  CHECK(wait_for_stop(guest.tid(), Patience::bounded).has_value());
  CHECK(guest.finish(tracee).kind() == WaitStatus::Kind::exited);
}

TEST_CASE("a stop whose report was taken is not waited for") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize_ready();
  const auto again = wait_for_stop(guest.tid(), Patience::bounded);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().errno_value == EAGAIN);
  CHECK(guest.finish(tracee).kind() == WaitStatus::Kind::exited);
}

TEST_CASE("waiting is interrupted by our own signal handlers, and polling never blocks") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  guest.seize();
  guest.await_ready();
  CHECK(wait_for(guest.tid(), WaitMode::poll).kind == WaitOutcome::Kind::nothing);
  CHECK(wait_any(WaitMode::poll).kind == WaitOutcome::Kind::nothing);
  CHECK(wait_for(Tid(1), WaitMode::poll).kind == WaitOutcome::Kind::no_children);

  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ::sigaction(SIGUSR2, &action, &before);
  Guest sender([&](Shared&) {
    for (;;) {
      ::usleep(2000);
      ::kill(::getppid(), SIGUSR2);
    }
  });
  CHECK(wait_for(guest.tid()).kind == WaitOutcome::Kind::interrupted);
  ::kill(sender.pid(), SIGKILL);
  sender.run_to_end();
  ::sigaction(SIGUSR2, &before, nullptr);
}
