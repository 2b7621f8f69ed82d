// SPDX-License-Identifier: MIT
//
// Signals around remote calls: none lost, none twice, none changed.
#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "guest.h"
#include "ptrace/deliver.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/signal_cause.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

Shared* in_guest = nullptr;

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

// SIGRTMIN's values must come in order; SIGUSR1's and SIGFPE's are added up in result.
void count_signals(Shared& shared) {
  in_guest = &shared;
  handle(SIGRTMIN, [](int, siginfo_t* info, void*) {
    if (in_guest->count++ != info->si_value.sival_int) in_guest->error = 1;
  });
  for (int signal : {SIGUSR1, SIGFPE}) {
    handle(signal, [](int, siginfo_t* info, void*) {
      in_guest->result += info->si_code == SI_QUEUE ? info->si_value.sival_int : 1000000;
    });
  }
  spin(shared);
}

siginfo_t queued(int signal, int value) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_value.sival_int = value;
  return info;
}

// At a stop that is not a signal's.
void give_back(Tracee tracee, Guest& guest, const siginfo_t& info) {
  std::vector<siginfo_t> more;
  REQUIRE(bring_to_signal_stop(tracee, info, more).has_value());
  CHECK(more.empty());
  REQUIRE(tracee.cont_if_alive(info.si_signo));
  guest.stop();
}

}  // namespace

TEST_CASE("signals that arrive during remote calls are all delivered once, in order") {
  if (!can_trace()) return;
  Watchdog watchdog(60);
  Guest guest(count_signals);
  Tracee tracee = guest.seize();
  guest.await_ready();
  constexpr int kSignals = 150;
  Guest sender([&](Shared& shared) {
    while (shared.go == 0) {
    }
    for (int i = 0; i < kSignals; ++i) {
      ::sigqueue(guest.pid(), SIGRTMIN, {.sival_int = i});
      for (const int64_t end = now_ns() + 20000; now_ns() < end;) {
      }
    }
  });
  sender.shared().go = 1;
  while (guest.shared().count < kSignals && guest.shared().error == 0) {
    REQUIRE(tracee.interrupt_if_alive());
    const WaitStatus stop = guest.wait();
    RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
    std::vector<siginfo_t> deferred;
    remote.keep_signals_in(deferred);
    for (int i = 0; i < 3; ++i) CHECK(remote.call(SYS_getpid).value() == guest.pid());
    const WaitStatus now = remote.finish().value();
    CHECK(deferred.empty());
    if (stop.kind() == WaitStatus::Kind::signal_stop) CHECK(now == stop);
    REQUIRE(tracee.cont_if_alive(now.kind() == WaitStatus::Kind::signal_stop ? now.signal() : 0));
  }
  CHECK(guest.shared().count == kSignals);
  CHECK(guest.shared().error == 0);
}

TEST_CASE("a sent signal that remote calls cannot hold back is kept with its siginfo") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(count_signals);
  Tracee tracee = guest.seize_ready();
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  std::vector<siginfo_t> deferred;
  remote.keep_signals_in(deferred);
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  ::sigqueue(guest.pid(), SIGFPE, {.sival_int = 30});
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  REQUIRE(remote.finish().has_value());
  REQUIRE(deferred.size() == 1);
  CHECK(deferred[0].si_value.sival_int == 30);
  CHECK(guest.shared().result == 0);
  give_back(tracee, guest, deferred[0]);
  CHECK(guest.finish(tracee).exit_code() == 0);
  CHECK(guest.shared().result == 30);
}

TEST_CASE("a trap or fault of the program's that is still to be delivered is kept") {
  if (!can_trace()) return;
  struct Raised {
    int signal, code;
    void* address;
  };
  const Raised cases[] = {{SIGTRAP, TRAP_TRACE, nullptr},
                          {SIGTRAP, SI_KERNEL, nullptr},
                          {SIGSEGV, SEGV_MAPERR, reinterpret_cast<void*>(8)},
                          {SIGFPE, FPE_INTDIV, reinterpret_cast<void*>(count_signals)}};
  for (const Raised& raised : cases) {
    CAPTURE(raised.signal);
    CAPTURE(raised.code);
    Watchdog watchdog;
    // As if its instruction had raised it just before it was stopped.
    Guest guest([&](Shared& shared) {
      sigset_t all;
      sigfillset(&all);
      ::sigprocmask(SIG_SETMASK, &all, nullptr);
      siginfo_t info{};
      info.si_signo = raised.signal;
      info.si_code = raised.code;
      info.si_addr = raised.address;
      if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::getpid(), raised.signal, &info) != 0)
        shared.error = 1;
      spin(shared);
    });
    Tracee tracee = guest.seize_ready();
    CHECK(guest.shared().error == 0);
    SignalMask mask = 0;
    REQUIRE(tracee.get_signal_mask_if_alive(mask));
    REQUIRE(tracee.set_signal_mask_if_alive(mask & ~mask_of(raised.signal)));
    RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
    std::vector<siginfo_t> deferred;
    remote.keep_signals_in(deferred);
    for (int i = 0; i < 2; i++) {
      const Result<int64_t> answer = remote.call(SYS_getpid);
      REQUIRE(answer.has_value());
      CHECK(*answer == guest.pid());
    }
    REQUIRE(remote.finish().has_value());
    REQUIRE(deferred.size() == 1);
    CHECK(deferred[0].si_signo == raised.signal);
    CHECK(deferred[0].si_code == raised.code);
    CHECK(deferred[0].si_addr == raised.address);
    CHECK(guest.finish(tracee).exit_code() == 0);
  }
}

TEST_CASE("a signal that the thread is stopped for keeps its siginfo through remote calls") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(count_signals);
  Tracee tracee = guest.seize();
  guest.await_ready();
  ::sigqueue(guest.pid(), SIGUSR1, {.sival_int = 7});
  REQUIRE(guest.wait().is_signal_stop(SIGUSR1));
  const Registers before = tracee.must_get_registers();
  siginfo_t info{};
  REQUIRE(tracee.get_siginfo_if_alive(info));
  // A second instance meanwhile must not melt with the first.
  // To the thread itself: the kernel takes such before those for the process.
  siginfo_t second = queued(SIGUSR1, 20);
  REQUIRE(::syscall(SYS_rt_tgsigqueueinfo, guest.pid(), guest.pid(), SIGUSR1, &second) == 0);
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  std::vector<siginfo_t> deferred;
  remote.keep_signals_in(deferred);
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  REQUIRE(remote.finish().value().is_signal_stop(SIGUSR1));
  siginfo_t again{};
  REQUIRE(tracee.get_siginfo_if_alive(again));
  CHECK(std::memcmp(&info, &again, sizeof info) == 0);
  CHECK(tracee.must_get_registers() == before);
  CHECK(deferred.empty());
  REQUIRE(tracee.cont_if_alive(SIGUSR1));
  guest.shared().go = 1;
  CHECK(guest.run_to_end().exit_code() == 0);
  CHECK(guest.shared().result == 27);
}

TEST_CASE("several signals are given back, each once, wherever the thread has stopped") {
  if (!can_trace()) return;
  enum class Stop { interrupt, signal, handler };
  for (const Stop where : {Stop::interrupt, Stop::signal, Stop::handler}) {
    CAPTURE(static_cast<int>(where));
    Watchdog watchdog;
    Guest guest(count_signals);
    Tracee tracee = guest.seize_ready();
    if (where != Stop::interrupt) {
      ::sigqueue(guest.pid(), SIGUSR1, {.sival_int = 4000});
      REQUIRE(tracee.cont_if_alive());
      REQUIRE(guest.wait().is_signal_stop(SIGUSR1));
    }
    if (where == Stop::handler) {
      REQUIRE(tracee.step_if_alive(SIGUSR1));
      REQUIRE(guest.wait().is_signal_stop(SIGTRAP));
    }
    // The second SIGFPE is blocked by the first one's handler.
    const std::vector<siginfo_t> signals = {queued(SIGFPE, 1), queued(SIGUSR1, 20),
                                            queued(SIGFPE, 300), queued(SIGRTMIN, 0)};
    const Result<int> last =
        ptrace::give_back(tracee, where == Stop::signal ? SIGUSR1 : 0, signals);
    REQUIRE(last.has_value());
    CHECK(*last == SIGRTMIN);
    REQUIRE(tracee.cont_if_alive(*last));
    guest.shared().go = 1;
    CHECK(guest.run_to_end().exit_code() == 0);
    CHECK(guest.shared().result == 321 + (where == Stop::interrupt ? 0 : 4000));
    CHECK(guest.shared().count == 1);
    CHECK(guest.shared().error == 0);
  }
}

TEST_CASE("a signal can be given back though the program blocks every signal") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    in_guest = &shared;
    handle(SIGUSR1,
           [](int, siginfo_t* info, void*) { in_guest->result += info->si_value.sival_int; });
    sigset_t set;
    sigfillset(&set);
    ::sigprocmask(SIG_SETMASK, &set, nullptr);
    spin(shared);
    shared.count = static_cast<int>(shared.result);  // before it is unblocked
    sigemptyset(&set);
    ::sigprocmask(SIG_SETMASK, &set, nullptr);
  });
  Tracee tracee = guest.seize_ready();
  SignalMask mask = 0;
  REQUIRE(tracee.get_signal_mask_if_alive(mask));
  give_back(tracee, guest, queued(SIGUSR1, 5));
  SignalMask after = 0;
  REQUIRE(tracee.get_signal_mask_if_alive(after));
  CHECK(after == mask);
  CHECK(guest.finish(tracee).exit_code() == 0);
  CHECK(guest.shared().count == 0);
  CHECK(guest.shared().result == 5);
}

TEST_CASE("what brings a signal to a thread does not take others out of their queue") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest([](Shared& shared) {
    sigset_t set;
    sigfillset(&set);
    ::sigprocmask(SIG_SETMASK, &set, nullptr);
    spin(shared);
  });
  Tracee tracee = guest.seize_ready();
  for (const int last : {SIGRTMAX, SIGRTMAX, SIGRTMAX - 1, SIGRTMAX - 3})
    ::sigqueue(guest.pid(), last, {.sival_int = 1});
  std::vector<siginfo_t> taken;
  REQUIRE(bring_to_signal_stop(tracee, queued(SIGUSR1, 5), taken));
  CHECK(taken.empty());
  SignalMask pending = 0;
  REQUIRE(tracee.get_pending_signals_if_alive(pending, Tracee::SignalQueue::process));
  CHECK(pending == (mask_of(SIGRTMAX) | mask_of(SIGRTMAX - 1) | mask_of(SIGRTMAX - 3)));
}

TEST_CASE("SIGTRAP's mask and disposition survive remote calls") {
  if (!can_trace()) return;
  enum Setting { handled, blocked_and_handled, ignored };
  for (int setting : {handled, blocked_and_handled, ignored}) {
    CAPTURE(setting);
    Watchdog watchdog;
    Guest guest([&](Shared& shared) {
      in_guest = &shared;
      if (setting == ignored)
        ::signal(SIGTRAP, SIG_IGN);
      else
        handle(SIGTRAP, [](int, siginfo_t*, void*) { ++in_guest->count; });
      sigset_t set;
      sigemptyset(&set);
      if (setting == blocked_and_handled) sigaddset(&set, SIGTRAP);
      ::sigprocmask(SIG_SETMASK, &set, nullptr);
      spin(shared);
    });
    Tracee tracee = guest.seize_ready();
    std::string before;
    for (const char* field : {"SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"}) {
      before += status_field(guest.tid(), field);
    }
    RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
    for (int i = 0; i < 20; ++i) CHECK(remote.call(SYS_getpid).value() == guest.pid());
    REQUIRE(remote.finish().has_value());
    std::string after;
    for (const char* field : {"SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"}) {
      after += status_field(guest.tid(), field);
    }
    CHECK(after == before);
    CHECK(guest.finish(tracee).exit_code() == 0);
    CHECK(guest.shared().count == 0);
  }
}

TEST_CASE("a stop signal and its continuation during remote calls leave the process running") {
  if (!can_trace()) return;
  for (bool continue_early : {true, false}) {
    CAPTURE(continue_early);
    Watchdog watchdog;
    Guest guest(spin);
    Tracee tracee = guest.seize_ready();
    RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
    CHECK(remote.call(SYS_getpid).value() == guest.pid());
    ::kill(guest.pid(), SIGSTOP);
    CHECK(remote.call(SYS_getpid).value() == guest.pid());
    if (continue_early) ::kill(guest.pid(), SIGCONT);
    CHECK(remote.call(SYS_getpid).value() == guest.pid());
    const WaitStatus stop = remote.finish().value();
    if (continue_early) {
      CHECK(stop.is_event(StopEvent::stop));
    } else {
      CHECK(stop.kind() == WaitStatus::Kind::group_stop);
      REQUIRE(tracee.listen_if_alive());
      ::kill(guest.pid(), SIGCONT);
      CHECK(guest.wait().is_event(StopEvent::stop));
    }
    CHECK(guest.finish(tracee).exit_code() == 0);
  }
}

TEST_CASE("remote calls in a group stop leave the process stopped") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest guest(spin);
  Tracee tracee = guest.seize();
  guest.await_ready();
  guest.stop_group();
  RemoteSyscalls remote(tracee, syscall_insn(), kPlain);
  CHECK(remote.call(SYS_getpid).value() == guest.pid());
  CHECK(remote.finish().value().kind() == WaitStatus::Kind::group_stop);
  REQUIRE(tracee.listen_if_alive());
  CHECK(status_field(guest.tid(), "State").starts_with("t"));
  ::kill(guest.pid(), SIGCONT);
  CHECK(guest.wait().is_event(StopEvent::stop));
}

namespace {

struct CauseCase {
  const char* name;
  void (*act)();
  int signal;
  SignalCause cause;
};

const CauseCase kCauses[] = {
    {"int3", [] { asm volatile("int3"); }, SIGTRAP, SignalCause::breakpoint},
    {"int1", [] { asm volatile(".byte 0xf1"); }, SIGTRAP, SignalCause::single_step},
    {"trap flag",
     [] {
       asm volatile("pushfq; orl $0x100, (%%rsp); popfq; nop" ::: "cc", "memory");
     },
     SIGTRAP, SignalCause::single_step},
    {"null", [] { asm volatile("movl $1, (%0)" ::"r"(uint64_t{8})
                               : "memory"); }, SIGSEGV,
     SignalCause::fault},
    {"non-canonical", [] { asm volatile("movl $1, (%0)" ::"r"(uint64_t{1} << 60)
                                        : "memory"); },
     SIGSEGV, SignalCause::fault},
    {"hlt", [] { asm volatile("hlt"); }, SIGSEGV, SignalCause::fault},
    {"ud2", [] { asm volatile("ud2"); }, SIGILL, SignalCause::fault},
    {"divide",
     [] {
       asm volatile("xorl %%ecx, %%ecx; divl %%ecx" ::: "eax", "ecx", "edx");
     },
     SIGFPE, SignalCause::fault},
    {"raised trap", [] { ::raise(SIGTRAP); }, SIGTRAP, SignalCause::sent},
    {"raised segv", [] { ::raise(SIGSEGV); }, SIGSEGV, SignalCause::sent},
    {"killed trap", [] { ::kill(::getpid(), SIGTRAP); }, SIGTRAP, SignalCause::sent},
    {"queued fpe", [] { ::sigqueue(::getpid(), SIGFPE, {}); }, SIGFPE, SignalCause::sent},
    {"forged breakpoint",
     [] {
       siginfo_t info{};
       info.si_signo = SIGTRAP;
       info.si_code = SI_KERNEL;
       ::syscall(SYS_rt_sigqueueinfo, ::getpid(), SIGTRAP, &info);
     },
     SIGTRAP, SignalCause::sent},
    {"forged fault",
     [] {
       siginfo_t info{};
       info.si_signo = SIGSEGV;
       info.si_code = SEGV_MAPERR;
       ::syscall(SYS_rt_sigqueueinfo, ::getpid(), SIGSEGV, &info);
     },
     SIGSEGV, SignalCause::sent},
};

}  // namespace

TEST_CASE("signals raised by an instruction are told from sent ones") {
  if (!can_trace()) return;
  for (const CauseCase& test : kCauses) {
    CAPTURE(test.name);
    Watchdog watchdog;
    Guest guest([&](Shared& shared) {
      spin(shared);
      test.act();
    });
    Tracee tracee = guest.seize();
    guest.await_ready();
    guest.shared().go = 1;
    const WaitStatus stop = guest.wait();
    REQUIRE_MESSAGE(stop.is_signal_stop(test.signal), to_string(stop));
    siginfo_t info{};
    REQUIRE(tracee.get_siginfo_if_alive(info));
    CHECK(cause_of(info, tracee.must_get_registers()) == test.cause);
  }
  siginfo_t broken_memory{};
  broken_memory.si_signo = SIGBUS;
  broken_memory.si_code = BUS_MCEERR_AO;
  Registers registers{};
  registers.orig_rax = machine::kNoSyscall;
  CHECK(cause_of(broken_memory, registers) == SignalCause::sent);
  broken_memory.si_code = BUS_MCEERR_AR;
  CHECK(cause_of(broken_memory, registers) == SignalCause::fault);
}
