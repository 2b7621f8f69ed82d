// SPDX-License-Identifier: MIT
#include "ptrace/launch.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>

#include "base/unique_fd.h"
#include "guest.h"
#include "kernel/proc.h"
#include "machine/cpu_model.h"
#include "ptrace/remote_memory.h"
#include "ptrace/remote_syscall.h"
#include "ptrace/send_fd.h"
#include "ptrace/wait.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

LaunchRequest shell(const std::string& script) {
  LaunchRequest request;
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", script};
  request.environment = {"PATH=/usr/bin:/bin", "ZERO=", "LAST=1"};
  request.signals = InheritedSignals::capture();
  request.options = TraceOptions::exit_kill | TraceOptions::mark_syscall_stops;
  return request;
}

// At its exec event.
RemoteSyscalls remote_in(Tracee tracee) {
  const auto mappings = kernel::read_maps(tracee.tid());
  REQUIRE(mappings);
  RemoteMemory memory(tracee.tid());
  const auto insn = find_syscall_instruction(kernel::executable_ranges(*mappings), memory);
  REQUIRE(insn);
  return RemoteSyscalls(tracee, *insn, kPlain | TraceOptions::report_exec);
}

bool no_child_left() {
  return ::waitpid(-1, nullptr, __WALL | WNOHANG) == -1 && errno == ECHILD;
}

WaitStatus finish(Tracee tracee) {
  REQUIRE(tracee.cont_if_alive());
  for (;;) {
    const WaitOutcome outcome = wait_for(tracee.tid());
    if (!outcome.has_status()) continue;
    if (outcome.status.is_dead()) return outcome.status;
    const bool signal = outcome.status.kind() == WaitStatus::Kind::signal_stop;
    (void)tracee.cont_if_alive(signal ? outcome.status.signal() : 0);
  }
}

// A file of its own in the build's directory, gone at the end.
class TempFile {
 public:
  explicit TempFile(const std::string& content, mode_t mode) {
    const int fd = ::mkstemp(path_.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::fchmod(fd, mode);
    ::close(fd);
  }
  ~TempFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::string content() const {
    std::ifstream file(path_);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }

 private:
  std::string path_ = "/tmp/shadowprof-test-XXXXXX";
};

}  // namespace

TEST_CASE("a launched program stands before its first instruction and runs to its own end") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Result<Tracee> tracee = launch(shell("exit 7"));
  REQUIRE_MESSAGE(tracee.has_value(), tracee.error().message);
  WaitStatus stop = WaitStatus::from_raw(0);
  REQUIRE(tracee->current_stop_if_alive(stop));
  CHECK(stop.is_event(StopEvent::exec));
  // The initial stack: argc, argv[0], ...
  const Registers registers = tracee->must_get_registers();
  RemoteMemory memory(tracee->tid());
  CHECK(memory.read_value<uint64_t>(registers.sp()).value() == 3);
  const uint64_t argv0 = memory.read_value<uint64_t>(registers.sp() + 8).value();
  CHECK(memory.read_string(GuestAddr(argv0), 10).value() == "sh");
  CHECK(finish(*tracee).exit_code() == 7);
  CHECK(no_child_left());
}

TEST_CASE("remote calls at the exec event come before the program's first instruction") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Result<Tracee> tracee = launch(shell("exit 9"));
  REQUIRE(tracee.has_value());
  const Registers before = tracee->must_get_registers();
  {
    RemoteSyscalls remote = remote_in(*tracee);
    CHECK(remote.call(SYS_getpid).value() == tracee->tid().value);
    CHECK(remote.finish().has_value());
  }
  const Registers after = tracee->must_get_registers();
  CHECK(after.rip == before.rip);
  CHECK(after.rsp == before.rsp);
  CHECK(finish(*tracee).exit_code() == 9);
}

TEST_CASE("what cannot be executed is an error with execve's errno, and no process is left") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile not_executable("#!/bin/sh\n", 0600);
  const TempFile no_program("this is not a program", 0700);
  const TempFile no_interpreter("#!/nowhere/sh\n", 0700);
  const struct {
    std::string path;
    int error;
  } rows[] = {
      {"/nowhere/program", ENOENT}, {not_executable.path(), EACCES}, {"/tmp", EACCES},
      {no_program.path(), ENOEXEC}, {no_interpreter.path(), ENOENT}, {"/dev/null/x", ENOTDIR}};
  for (const auto& row : rows) {
    CAPTURE(row.path);
    for (TraceOptions extra : {TraceOptions::none, TraceOptions::report_exit}) {
      LaunchRequest request = shell("");
      request.path = row.path;
      request.options = request.options | extra;
      const Result<Tracee> tracee = launch(request);
      REQUIRE_FALSE(tracee.has_value());
      CHECK(tracee.error().errno_value == row.error);
      CHECK(tracee.error().message.find(row.path) != std::string::npos);
      CHECK(no_child_left());
    }
  }
}

TEST_CASE("the program inherits its descriptors from us, and no other") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile out("", 0600);
  const UniqueFd ours(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // ls has one descriptor more for the directory; a plain fork and exec tells what is normal.
  const std::string list = "exec ls /proc/self/fd > " + out.path();
  REQUIRE(std::system(list.c_str()) == 0);
  const std::string expected = out.content();
  Result<Tracee> tracee = launch(shell(list));
  REQUIRE(tracee.has_value());
  CHECK(finish(*tracee).exit_code() == 0);
  CHECK(out.content() == expected);
}

TEST_CASE("a program whose vdso is hidden finds the rest of what the kernel tells it") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile out("", 0600);
  LaunchRequest request = shell("");
  request.path = "/bin/true";
  request.fixed_start = true;
  request.environment = {"LD_SHOW_AUXV=1"};  // the dynamic loader writes it to the standard output
  const UniqueFd ours(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd file(::open(out.path().c_str(), O_WRONLY | O_CLOEXEC));
  ::dup2(file.get(), STDOUT_FILENO);
  Result<Tracee> tracee = launch(request);
  ::dup2(ours.get(), STDOUT_FILENO);
  REQUIRE(tracee.has_value());
  CHECK(finish(*tracee).exit_code() == 0);
  CHECK(out.content().find("AT_SYSINFO_EHDR") == std::string::npos);
  CHECK(out.content().find("AT_RANDOM") != std::string::npos);
  CHECK(out.content().find("AT_EXECFN") != std::string::npos);
}

TEST_CASE("environment, working directory, umask, group and limits are passed on unchanged") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile out("", 0600);
  const mode_t before = ::umask(0027);
  Result<Tracee> tracee =
      launch(shell("{ tr '\\0' '\\n' < /proc/self/environ; pwd -P; umask; ulimit -n; ps -o pgid= "
                   "-p $$ 2>/dev/null "
                   "|| cut -d' ' -f5 /proc/$$/stat; } > " +
                   out.path()));
  ::umask(before);
  REQUIRE(tracee.has_value());
  CHECK(finish(*tracee).exit_code() == 0);
  char cwd[4096];
  REQUIRE(::getcwd(cwd, sizeof cwd) != nullptr);
  std::istringstream text(out.content());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("PWD=")) lines.push_back(line);
  }
  REQUIRE(lines.size() >= 7);
  CHECK(lines[0] == "PATH=/usr/bin:/bin");
  CHECK(lines[1] == "ZERO=");
  CHECK(lines[2] == "LAST=1");
  CHECK(lines[3] == cwd);
  CHECK(lines[4] == "0027");
  CHECK(std::stol(lines[5]) == ::sysconf(_SC_OPEN_MAX));
  CHECK(std::stoi(lines[6]) == ::getpgrp());
}

TEST_CASE("the program gets the signal mask and the ignored signals that we inherited") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile out("", 0600);
  LaunchRequest request = shell("exec grep -E '^Sig(Blk|Ign)' /proc/self/status > " + out.path());
  request.signals.blocked = mask_of(SIGUSR1) | mask_of(40);
  request.signals.ignored = mask_of(SIGINT) | mask_of(SIGHUP);
  // We changed ours since.
  const auto old_pipe = ::signal(SIGPIPE, SIG_IGN);
  const auto old_int = ::signal(SIGINT, [](int) {});
  Result<Tracee> tracee = launch(request);
  ::signal(SIGPIPE, old_pipe);
  ::signal(SIGINT, old_int);
  REQUIRE(tracee.has_value());
  CHECK(finish(*tracee).exit_code() == 0);
  CHECK(out.content() == "SigBlk:\t0000008000000200\nSigIgn:\t0000000000000003\n");
  const InheritedSignals now = InheritedSignals::capture();
  CHECK((now.ignored & mask_of(SIGINT)) == 0);
}

TEST_CASE("an alarm that was set before us is the program's") {
  if (!can_trace()) return;
  const itimerval soon{{0, 0}, {0, 200'000}};
  REQUIRE(::setitimer(ITIMER_REAL, &soon, nullptr) == 0);
  LaunchRequest request = shell("exec sleep 30");
  request.signals.take_timers();
  itimerval left{};
  REQUIRE(::getitimer(ITIMER_REAL, &left) == 0);
  CHECK(!timerisset(&left.it_value));
  const Result<Tracee> tracee = launch(request);
  REQUIRE(tracee.has_value());
  const WaitStatus end = finish(*tracee);
  CHECK(end.kind() == WaitStatus::Kind::killed);
  CHECK(end.signal() == SIGALRM);
  CHECK(no_child_left());
}

TEST_CASE("without randomisation the program lies at the same addresses every time") {
  if (!can_trace()) return;
  Watchdog watchdog;
  LaunchRequest request = shell("exit 0");
  request.fixed_addresses = true;
  uint64_t rip[2];
  uint64_t rsp[2];
  for (int i = 0; i < 2; ++i) {
    Result<Tracee> tracee = launch(request);
    REQUIRE(tracee.has_value());
    rip[i] = tracee->must_get_registers().rip;
    rsp[i] = tracee->must_get_registers().rsp;
    CHECK(finish(*tracee).exit_code() == 0);
  }
  CHECK(rip[0] == rip[1]);
  CHECK(rsp[0] == rsp[1]);
}

TEST_CASE("with a fixed start all that the kernel tells the program is the same every time") {
  if (!can_trace()) return;
  Watchdog watchdog;
  LaunchRequest request = shell("exit 0");
  request.fixed_addresses = request.fixed_start = true;
  std::vector<uint8_t> stacks[2];
  for (auto& stack : stacks) {
    Result<Tracee> tracee = launch(request);
    REQUIRE(tracee.has_value());
    stack.resize(1 << 20);
    RemoteMemory memory(tracee->tid());
    stack.resize(memory.read_some(GuestAddr(tracee->must_get_registers().rsp), stack));
    CHECK(finish(*tracee).exit_code() == 0);
  }
  CHECK(stacks[0].size() > 100);
  CHECK(stacks[0] == stacks[1]);
}

namespace {

// Words at the start of the program's stack, and where they are.
struct StartWords {
  uint64_t sp = 0;
  std::vector<uint64_t> words;
};

StartWords start_of(const LaunchRequest& request) {
  StartWords start;
  Result<Tracee> tracee = launch(request);
  if (!tracee) FAIL(tracee.error().message);
  start.sp = tracee->must_get_registers().rsp;
  start.words.resize(256);
  RemoteMemory memory(tracee->tid());
  const size_t bytes =
      memory.read_some(GuestAddr(start.sp),
                       {reinterpret_cast<uint8_t*>(start.words.data()), 256 * sizeof(uint64_t)});
  start.words.resize(bytes / sizeof(uint64_t));
  CHECK(finish(*tracee).exit_code() == 0);
  return start;
}

}  // namespace

TEST_CASE("a fixed start does not depend on the length of environment, path and name") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile link("", 0600);
  const std::string long_path = link.path() + std::string(150, 'x');
  REQUIRE(::symlink("/bin/true", long_path.c_str()) == 0);
  LaunchRequest request = shell("");
  request.fixed_addresses = request.fixed_start = true;
  request.path = "/bin/true";
  request.argv = {"true", "argument"};
  request.environment = {"A=1", "B=2"};
  const StartWords first = start_of(request);
  request.path = long_path;
  request.argv[0] = long_path;
  request.environment[1] = "B=" + std::string(5000, '2');
  const StartWords second = start_of(request);
  CHECK(first.sp == second.sp);
  CHECK(first.words == second.words);
  request.environment.emplace_back("C=3");
  const StartWords third = start_of(request);
  ::unlink(long_path.c_str());
  CHECK(first.sp == third.sp);
  for (size_t i = 0; i < 6; i++) CHECK(first.words[i] == third.words[i]);
}

TEST_CASE("a start that is too large to be laid out anew is the kernel's") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const TempFile out("", 0600);
  const std::string large(100 << 10, 'x');
  const std::string script = "echo $LARGE | wc -c > " + out.path() +
                             "; tr '\\0' '\\n' < /proc/$$/cmdline >> " + out.path();
  LaunchRequest request = shell(script);
  request.fixed_addresses = request.fixed_start = true;
  request.environment.push_back("LARGE=" + large);
  Result<Tracee> tracee = launch(request);
  REQUIRE(tracee.has_value());
  CHECK(finish(*tracee).exit_code() == 0);
  CHECK(out.content() == std::to_string(large.size() + 1) + "\nsh\n-c\n" + script + "\n");
}

TEST_CASE("a model of a processor is in the auxiliary vector, with a fixed start or without") {
  if (!can_trace()) return;
  Watchdog watchdog;
  const auto* baseline = shadowprof::machine::CpuModel::find("baseline");
  for (const bool fixed : {false, true}) {
    LaunchRequest request = shell("");
    request.path = "/bin/true";
    request.fixed_start = fixed;
    request.processor = baseline;
    const StartWords start = start_of(request);
    size_t at = 0;
    for (int zeros = 0; zeros < 2; at++) zeros += at != 0 && start.words[at] == 0 ? 1 : 0;
    std::map<uint64_t, uint64_t> vector;
    for (; start.words[at] != AT_NULL; at += 2) vector[start.words[at]] = start.words[at + 1];
    CHECK(vector.at(AT_HWCAP) == baseline->hwcap());
    CHECK(vector.at(AT_HWCAP2) == 0);
    CHECK(vector.contains(AT_SYSINFO_EHDR) == !fixed);
  }
}

TEST_CASE("the program dies with us") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Guest profiler([](Shared& shared) {
    Result<Tracee> tracee = launch(shell("sleep 600"));
    shared.result = tracee ? tracee->tid().value : -1;
    shared.ready = 1;
    for (;;) ::pause();
  });
  profiler.await_ready();
  const pid_t program = static_cast<pid_t>(profiler.shared().result);
  REQUIRE(program > 0);
  CHECK(::kill(program, 0) == 0);
  ::kill(profiler.pid(), SIGKILL);
  profiler.run_to_end();
  for (int i = 0; i < 5000; ++i) {
    const std::string state = status_field(Tid(program), "State");
    if (state.empty() || state.starts_with("Z")) return;
    ::usleep(1000);
  }
  FAIL("the program survived");
}

TEST_CASE("in an id space of its own the program is process 2, and nobody is left at its end") {
  if (!IdSpace::is_permitted()) {
    MESSAGE("skipped: this host permits no PID namespace");
    return;
  }
  {
    IdSpace ids;
    auto child = launch(shell("test $$ = 2 && test -e /proc/2/exe && kill -0 2"), &ids);
    REQUIRE(child);
    CHECK(ids.is_own());
    CHECK(child->tid() != Tid(2));
    CHECK(kernel::names_thread_of(child->tid(), 2));
    CHECK_FALSE(kernel::names_thread_of(child->tid(), child->tid().value));
    // It does not see our files in /proc: a descriptor is sent all the same.
    UniqueFd ours(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    RemoteSyscalls remote = remote_in(*child);
    const auto sent = send_fd(remote, ours.get(), O_RDONLY);
    REQUIRE(sent);
    REQUIRE(remote.close(*sent));
    REQUIRE(remote.finish());
    CHECK(finish(*child).exit_code() == 0);
  }
  CHECK(no_child_left());
}

TEST_CASE("what a program leaves in its id space goes on") {
  if (!IdSpace::is_permitted()) return;  // as above
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  REQUIRE(::fcntl(writer.get(), F_SETFD, 0) == 0);
  {
    IdSpace ids;
    auto child = launch(
        shell(fmt::format("(sleep 0.3; echo late >&{0}) & exec {0}>&-", writer.get())), &ids);
    REQUIRE(child);
    CHECK(finish(*child).exit_code() == 0);
  }
  writer.reset();
  std::array<char, 16> said{};
  CHECK(::read(reader.get(), said.data(), said.size()) == 5);
  CHECK(std::string(said.data()) == "late\n");
  while (::waitpid(-1, nullptr, __WALL) > 0) continue;  // who has kept it
}
