// SPDX-License-Identifier: MIT
#include "guest.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "ptrace/remote_memory.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/wait.h"

namespace shadowprof::ptrace::test {
namespace {

constexpr int kPatienceMs = 10000;

void sleep_ms(int ms) {
  const timespec t{ms / 1000, (ms % 1000) * 1000000L};
  ::nanosleep(&t, nullptr);
}

}  // namespace

int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

Watchdog::Watchdog(unsigned seconds) {
  ::alarm(seconds);
}
Watchdog::~Watchdog() {
  ::alarm(0);
}

Guest::Guest(const std::function<void(Shared&)>& body) {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  shared_ = new (page) Shared{};
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int s : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGTERM, SIGINT}) ::signal(s, SIG_DFL);
    body(*shared_);
    ::syscall(SYS_exit_group, 0);  // _exit(2) of the sanitizers makes calls that its filters refuse
  }
  tid_ = Tid(pid);
}

Guest::~Guest() {
  if (!reaped_) {
    ::kill(pid(), SIGKILL);
    // SIGKILL does not wake a thread from its exit event when its process is exiting already.
    (void)tracee().cont_if_alive();
    for (;;) {
      const WaitOutcome outcome = wait_for(tid_);
      if (outcome.kind == WaitOutcome::Kind::no_children) break;
      if (!outcome.has_status()) continue;
      if (outcome.status.is_dead()) break;
      (void)tracee().cont_if_alive();
    }
  }
  ::munmap(shared_, 4096);
}

Tracee Guest::seize(TraceOptions options) {
  Result<Tracee> tracee = ptrace::seize(tid_, options | TraceOptions::mark_syscall_stops);
  REQUIRE_MESSAGE(tracee.has_value(), tracee.error().message);
  return *tracee;
}

Tracee Guest::seize_ready() {
  Tracee tracee = seize();
  await_ready();
  stop();
  return tracee;
}

void Guest::await_ready(int n) {
  for (int i = 0; i < kPatienceMs && shared_->ready < n; ++i) sleep_ms(1);
  REQUIRE(shared_->ready >= n);
}

void Guest::await_sleep() {
  for (int i = 0; i < kPatienceMs; ++i) {
    if (status_field(tid_, "State").starts_with("S")) return;
    sleep_ms(1);
  }
  FAIL("the guest does not sleep");
}

WaitStatus Guest::wait() {
  for (;;) {
    const WaitOutcome outcome = wait_for(tid_);
    if (outcome.kind == WaitOutcome::Kind::interrupted) continue;
    REQUIRE(outcome.has_status());
    reaped_ = outcome.status.is_dead();
    return outcome.status;
  }
}

void Guest::stop() {
  REQUIRE(tracee().interrupt_if_alive());
  const WaitStatus status = wait();
  REQUIRE_MESSAGE(status.is_event(StopEvent::stop), to_string(status));
}

WaitStatus Guest::stop_group() {
  ::kill(pid(), SIGSTOP);
  const WaitStatus received = wait();
  REQUIRE_MESSAGE(received.is_signal_stop(SIGSTOP), to_string(received));
  REQUIRE(tracee().cont_if_alive(SIGSTOP));
  const WaitStatus stop = wait();
  REQUIRE_MESSAGE(stop.kind() == WaitStatus::Kind::group_stop, to_string(stop));
  return stop;
}

Tid Guest::await_thread() {
  shared_->go = 1;
  const WaitStatus made = wait();
  REQUIRE_MESSAGE(made.is_event(StopEvent::clone), to_string(made));
  uint64_t number = 0;
  REQUIRE(tracee().get_event_message_if_alive(number));
  const Tid thread(static_cast<int32_t>(number));
  REQUIRE(wait_for(thread).status.is_event(StopEvent::stop));
  return thread;
}

WaitStatus Guest::run_to_end() {
  for (;;) {
    const WaitStatus status = wait();
    if (status.is_dead()) return status;
    const int signal = status.kind() == WaitStatus::Kind::signal_stop ? status.signal() : 0;
    (void)tracee().cont_if_alive(signal);
  }
}

WaitStatus Guest::finish(Tracee tracee) {
  shared_->go = 1;
  REQUIRE(tracee.cont_if_alive());
  return run_to_end();
}

void spin(Shared& shared) {
  shared.ready = 1;
  while (shared.go == 0) {
  }
}

void spin_and_make_thread(Shared& shared) {
  spin(shared);
  pthread_t thread;
  ::pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        static_cast<Shared*>(argument)->result = ::gettid();
        return nullptr;
      },
      &shared);
  shared.error = ::pthread_join(thread, nullptr);
}

std::string status_field(Tid tid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(tid.value) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return line.substr(name.size() + 2);
  }
  return {};
}

bool can_trace() {
  static const std::string reason = [] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    Result<Tracee> tracee = ptrace::seize(Tid(pid), TraceOptions::none);
    ::kill(pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status)) {
    }
    return tracee ? std::string() : tracee.error().message;
  }();
  if (!reason.empty()) MESSAGE("skipped: " << reason);
  return reason.empty();
}

GuestAddr syscall_insn() {
  static const GuestAddr found = [] {
    std::vector<GuestRange> ranges;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("[vdso]") == std::string::npos && line.find("libc") == std::string::npos)
        continue;
      if (line.find("r-xp") == std::string::npos) continue;
      uint64_t start = 0;
      uint64_t end = 0;
      char dash = 0;
      std::istringstream(line) >> std::hex >> start >> dash >> end;
      ranges.push_back({GuestAddr(start), GuestAddr(end)});
    }
    RemoteMemory memory{Tid(::getpid())};
    const Result<GuestAddr> insn = find_syscall_instruction(ranges, memory);
    REQUIRE(insn.has_value());
    return *insn;
  }();
  return found;
}

}  // namespace shadowprof::ptrace::test
