// SPDX-License-Identifier: MIT
//
// A thread that sleeps in a system call is interrupted, executes calls of ours, and must come back
// from its own call as if nothing had been: by the wake-up that it waited for, with the result
// that it would have had, at the time that it would have.
#include <doctest/doctest.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "guest.h"
#include "ptrace/remote_syscall.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

constexpr timespec kFarAway{600, 0};
constexpr int64_t kNapNs = 400000000;

// What the guest sleeps in; fds[0] becomes readable when the test wakes it.
struct Sleep {
  const char* name;
  std::function<int64_t(Shared&, int fd)> sleep;
  std::function<void(Guest&, int fd)> wake;  // none: it wakes by time, after kNapNs
  int64_t expected;
  int expected_error = 0;
};

void write_byte(Guest&, int fd) {
  const char byte = 'x';
  REQUIRE(::write(fd, &byte, 1) == 1);
}

void wake_futex(Guest& guest, int) {
  guest.shared().futex = 1;
  ::syscall(SYS_futex, &guest.shared().futex, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void send_usr1(Guest& guest, int) {
  ::kill(guest.pid(), SIGUSR1);
}

int64_t futex_wait(Shared& shared, const timespec* timeout) {
  return ::syscall(SYS_futex, &shared.futex, FUTEX_WAIT, 0, timeout, nullptr, 0);
}

int64_t epoll_on(int fd, int timeout_ms) {
  const int epoll = ::epoll_create1(0);
  epoll_event event{EPOLLIN, {}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  return ::epoll_wait(epoll, &event, 1, timeout_ms);
}

int64_t receive(int fd) {
  const timeval timeout{600, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  char byte;
  return ::recv(fd, &byte, 1, 0);
}

int64_t select_on(int fd) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  return ::select(fd + 1, &set, nullptr, nullptr, nullptr);
}

int64_t suspend() {
  sigset_t empty;
  sigemptyset(&empty);
  return ::sigsuspend(&empty);
}

int64_t await_usr1() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return ::sigtimedwait(&set, nullptr, &kFarAway);
}

int64_t decrement_semaphore(Shared& shared) {
  const int id = ::semget(IPC_PRIVATE, 1, 0600);
  shared.values[0] = id;
  sembuf operation{0, -1, 0};
  return ::semtimedop(id, &operation, 1, &kFarAway);
}

void increment_semaphore(Guest& guest, int) {
  const int id = static_cast<int>(guest.shared().values[0]);
  sembuf operation{0, 1, 0};
  REQUIRE(::semop(id, &operation, 1) == 0);
}

const Sleep kSleeps[] = {
    {"nanosleep",
     [](Shared&, int) {
       const timespec t{0, kNapNs};
       return ::nanosleep(&t, nullptr);
     },
     nullptr, 0},
    {"clock_nanosleep until",
     [](Shared&, int) {
       const int64_t at = now_ns() + kNapNs;
       const timespec t{at / 1000000000, at % 1000000000};
       return ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
     },
     nullptr, 0},
    {"read",
     [](Shared&, int fd) {
       char c;
       return ::read(fd, &c, 1);
     },
     write_byte, 1},
    {"recv with timeout", [](Shared&, int fd) { return receive(fd); }, write_byte, 1},
    {"poll",
     [](Shared&, int fd) {
       pollfd p{fd, POLLIN, 0};
       return ::poll(&p, 1, 600000);
     },
     write_byte, 1},
    {"ppoll",
     [](Shared&, int fd) {
       pollfd p{fd, POLLIN, 0};
       return ::ppoll(&p, 1, &kFarAway, nullptr);
     },
     write_byte, 1},
    {"select", [](Shared&, int fd) { return select_on(fd); }, write_byte, 1},
    {"epoll_wait", [](Shared&, int fd) { return epoll_on(fd, -1); }, write_byte, 1},
    {"epoll_wait with timeout", [](Shared&, int fd) { return epoll_on(fd, 600000); }, write_byte,
     1},
    {"futex", [](Shared& s, int) { return futex_wait(s, nullptr); }, wake_futex, 0},
    {"futex with timeout", [](Shared& s, int) { return futex_wait(s, &kFarAway); }, wake_futex, 0},
    {"semtimedop", [](Shared& s, int) { return decrement_semaphore(s); }, increment_semaphore, 0},
    {"pause", [](Shared&, int) { return ::pause(); }, send_usr1, -1, EINTR},
    {"sigsuspend", [](Shared&, int) { return suspend(); }, send_usr1, -1, EINTR},
    {"sigtimedwait", [](Shared&, int) { return await_usr1(); }, send_usr1, SIGUSR1},
};

bool blocks_usr1(const std::string& name) {
  return name.starts_with("sig");
}

// The guest's side: sets itself up, sleeps, tells what came out.
void go_to_sleep(const Sleep& kind, Shared& shared, int fd) {
  struct sigaction action {};
  static Shared* counter = &shared;
  counter = &shared;
  action.sa_handler = [](int) { ++counter->count; };
  ::sigaction(SIGUSR1, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  if (blocks_usr1(kind.name)) sigaddset(&set, SIGUSR1);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
  shared.ready = 1;
  errno = 0;
  shared.result = kind.sleep(shared, fd);
  shared.error = errno;
}

void make_remote_calls(Guest& guest) {
  RemoteSyscalls remote(guest.tracee(), syscall_insn(), kPlain);
  std::vector<siginfo_t> deferred;
  remote.keep_signals_in(deferred);
  for (int i = 0; i < 3; ++i) {
    const Result<int64_t> pid = remote.call(SYS_getpid);
    REQUIRE(pid.has_value());
    CHECK(*pid == guest.pid());
  }
  const Result<GuestAddr> memory =
      remote.mmap(GuestAddr(), 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  REQUIRE(memory.has_value());
  CHECK(remote.munmap(*memory, 8192).has_value());
  const Result<WaitStatus> stop = remote.finish();
  REQUIRE(stop.has_value());
  CHECK(deferred.empty());
}

void check_one(const Sleep& kind) {
  Watchdog watchdog;
  CAPTURE(kind.name);
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  Guest guest([&](Shared& shared) { go_to_sleep(kind, shared, fds[0]); });
  Tracee tracee = guest.seize();
  guest.await_ready();
  const int64_t start_ns = now_ns();
  for (int round = 0; round < 3; ++round) {
    guest.await_sleep();
    guest.stop();
    const Registers before = tracee.must_get_registers();
    CHECK(before.in_syscall());
    make_remote_calls(guest);
    Registers after = tracee.must_get_registers();
    CHECK(after.restart_pending());
    after.rax = before.rax;  // may have been EINTR
    CHECK(after == before);
    REQUIRE(tracee.cont_if_alive());
  }
  if (kind.wake) {
    guest.await_sleep();
    kind.wake(guest, fds[1]);
  }
  const WaitStatus end = guest.run_to_end();
  const int64_t took_ns = now_ns() - start_ns;
  CHECK(end.kind() == WaitStatus::Kind::exited);
  CHECK(guest.shared().result == kind.expected);
  CHECK(guest.shared().error == kind.expected_error);
  CHECK(guest.shared().count == (kind.expected_error == EINTR ? 1 : 0));
  if (!kind.wake) {
    CHECK(took_ns > kNapNs / 2);
    CHECK(took_ns < kNapNs * 3);
  }
  if (guest.shared().values[0] != 0) {
    ::semctl(static_cast<int>(guest.shared().values[0]), 0, IPC_RMID);
  }
  ::close(fds[0]);
  ::close(fds[1]);
}

}  // namespace

TEST_CASE("a sleeping system call goes on after remote calls as if nothing had been") {
  if (!can_trace()) return;
  for (const Sleep& kind : kSleeps) check_one(kind);
}

// The wake-up is a signal that was let in by the call's own mask; our calls come at its delivery.
TEST_CASE("remote calls at a signal's delivery leave handler and EINTR to the sleeping call") {
  if (!can_trace()) return;
  const auto epoll_pwait = [](Shared&, int fd) {
    sigset_t empty;
    sigemptyset(&empty);
    const int epoll = ::epoll_create1(0);
    epoll_event event{EPOLLIN, {}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    return int64_t{::epoll_pwait(epoll, &event, 1, -1, &empty)};
  };
  const Sleep kinds[] = {
      {"sig epoll_pwait", epoll_pwait, send_usr1, -1, EINTR},
      {"sigsuspend", [](Shared&, int) { return suspend(); }, send_usr1, -1, EINTR},
      {"pause", [](Shared&, int) { return ::pause(); }, send_usr1, -1, EINTR},
      {"epoll_wait", [](Shared&, int fd) { return epoll_on(fd, -1); }, send_usr1, -1, EINTR},
  };
  for (const Sleep& kind : kinds) {
    Watchdog watchdog;
    CAPTURE(kind.name);
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    Guest guest([&](Shared& shared) { go_to_sleep(kind, shared, fds[0]); });
    Tracee tracee = guest.seize();
    guest.await_ready();
    guest.await_sleep();
    send_usr1(guest, 0);
    REQUIRE(guest.wait().is_signal_stop(SIGUSR1));
    make_remote_calls(guest);
    WaitStatus stop = WaitStatus::from_raw(0);
    REQUIRE(tracee.current_stop_if_alive(stop));
    CHECK(stop.is_signal_stop(SIGUSR1));
    REQUIRE(tracee.cont_if_alive(SIGUSR1));
    CHECK(guest.run_to_end().kind() == WaitStatus::Kind::exited);
    CHECK(guest.shared().result == -1);
    CHECK(guest.shared().error == EINTR);
    CHECK(guest.shared().count == 1);
    ::close(fds[0]);
    ::close(fds[1]);
  }
}
