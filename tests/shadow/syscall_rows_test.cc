// SPDX-License-Identifier: MIT
//
// Each row of the system call table is made in a replica, with arguments of many kinds, and what
// happens is compared with what `shadowprof syscalls` prints for it.
//
// Whether a call was made is told by the kernel: to make one, the stopped replica has to run, and
// that is a context switch of its thread.
#include "shadow/system_calls.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "kernel/proc.h"
#include "ptrace/wait.h"
#include "shadow/replica.h"

#undef CHECK  // doctest's, from here on
#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

using kernel::SyscallEffects;
using kernel::SyscallRow;

constexpr uint64_t kAtHere = static_cast<uint64_t>(int64_t{AT_FDCWD});

// What calls are given. The same addresses in the test and in its replicas.
struct World {
  World() {
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    std::strcpy(path, "/");
    std::memset(buffer, 0x7f, sizeof buffer);
  }
  ~World() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  const UniqueFd file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  int ends[2] = {-1, -1};
  const open_how how{};
  alignas(4096) char path[4096];
  alignas(4096) char buffer[4096];
};

// A child with our memory and descriptors that makes no calls.
class Twin {
 public:
  Twin() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Twin() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Tid tid() const { return Tid(pid_); }

 private:
  pid_t pid_;
};

// A stopped child with our memory and a descriptor table of its own. Dies with us.
class TestReplica {
 public:
  TestReplica() {
    tracee_ = ptrace::seize(tid(), kReplica.options).value();
    REQUIRE(tracee_.interrupt_if_alive());
    REQUIRE(ptrace::wait_for_stop(tid()));
    REQUIRE(code_.find_syscall_insn(kernel::read_maps(tid()).value()));
    ptrace::RemoteSyscalls remote(tracee_, code_.syscall_insn(), kReplica);
    REQUIRE(Descriptors::leave_table(remote));
    REQUIRE(remote.finish());
    threads_.push_back(std::make_unique<GuestThread>());
  }
  Tid tid() const { return twin_.tid(); }

  SyscallAnswer answer(long nr, const SyscallArguments& args) {
    *threads_.front() = GuestThread();
    threads_.front()->tid = Tid(::gettid());
    ptrace::Registers registers{};
    registers.rax = static_cast<uint64_t>(nr);
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.rdx = args[2];
    registers.r10 = args[3];
    registers.r8 = args[4];
    registers.r9 = args[5];
    ptrace::RemoteSyscalls remote(tracee_, code_.syscall_insn(), kReplica);
    SyscallAnswer answer = calls_.answer(*threads_.front(), registers, remote);
    CHECK(remote.finish());
    return answer;
  }

  // How often its thread has stopped running.
  uint64_t switches() const {
    std::ifstream status(fmt::format("/proc/{}/status", tid().value));
    uint64_t sum = 0;
    for (std::string word; status >> word;) {
      uint64_t count = 0;
      if (word.ends_with("ctxt_switches:") && status >> count) sum += count;
    }
    return sum;
  }

 private:
  Twin program_;
  Descriptors descriptors_ = Descriptors::of(program_.tid());
  Twin twin_;
  ptrace::Tracee tracee_{Tid()};
  trace::BlockTable table_;
  inject::GuestCode code_{tid(), table_};
  SharedPages shared_;
  GuestThreads threads_;
  SystemCalls calls_{
      {Tid(::getpid()), ::getppid()}, tid(), descriptors_, shared_, code_, threads_, nullptr};
};

constexpr auto kNothing = SyscallEffects{};

SyscallEffects effect_of(TestReplica& replica, long nr, const SyscallArguments& args) {
  const uint64_t before = replica.switches();
  const SyscallAnswer answer = replica.answer(nr, args);
  if (answer.kind == SyscallAnswer::Kind::ends) {
    CHECK(answer.ending.outcome != Outcome::died);
    return SyscallEffects::ends;
  }
  const bool has_run = replica.switches() != before;
  return has_run ? SyscallEffects::made : SyscallEffects::answered;
}

// All that was seen to happen to a call.
SyscallEffects effects_of(const World& world, long nr) {
  const auto at = [](const void* p) { return reinterpret_cast<uint64_t>(p); };
  const auto code = reinterpret_cast<uint64_t>(&effect_of) & ~uint64_t{4095};
  TestReplica replica;
  const auto opened = replica.answer(SYS_openat, {kAtHere, at(world.path), O_RDONLY | O_DIRECTORY});
  REQUIRE(opened.kind == SyscallAnswer::Kind::value);
  REQUIRE(opened.value >= 0);
  // Opened when it is first used, which is no part of the call that does.
  REQUIRE(replica.answer(SYS_lseek, {static_cast<uint64_t>(world.file.get()), 0, SEEK_SET}).value ==
          0);
  const uint64_t firsts[] = {0,
                             3,  // PR_GET_DUMPABLE
                             static_cast<uint64_t>(world.file.get()),
                             static_cast<uint64_t>(world.ends[0]),
                             static_cast<uint64_t>(opened.value),
                             kAtHere,
                             0xffffffff,
                             at(world.path),
                             at(world.buffer),
                             code};
  const uint64_t seconds[] = {0, 8, F_SETLK, FIONREAD, at(world.path), at(world.buffer)};
  const std::pair<uint64_t, uint64_t> last[] = {
      {0, 0}, {PROT_EXEC, 0}, {0, MAP_PRIVATE | MAP_ANONYMOUS}, {at(&world.how), sizeof world.how}};
  SyscallEffects seen = kNothing;
  for (const uint64_t first : firsts)
    for (const uint64_t second : seconds)
      for (const auto& [third, fourth] : last)
        seen = seen | effect_of(replica, nr, {first, second, third, fourth, 0, 0});
  return seen;
}

TEST_CASE("what is printed for a system call is what happens to it in a replica") {
  const World world;
  for (const SyscallRow& row : kernel::all_syscalls()) {
    CAPTURE(row.name);
    CAPTURE(describe(row));
    const SyscallEffects seen = effects_of(world, row.nr);
    // Nothing else than that.
    for (const auto effect :
         {SyscallEffects::made, SyscallEffects::answered, SyscallEffects::ends}) {
      CAPTURE(static_cast<int>(effect));
      if (has(seen, effect)) CHECK(has(row.effects, effect));
    }
    // And what is not said to end the sample only, does not.
    if (row.effects != SyscallEffects::ends) CHECK(seen != SyscallEffects::ends);
  }
}

TEST_CASE("both ends of a pipe get the numbers that they would have in the program") {
  const World world;
  // What the program would get.
  int expected[2];
  REQUIRE(::pipe2(expected, O_CLOEXEC) == 0);
  ::close(expected[0]);
  ::close(expected[1]);
  int got[2] = {-1, -1};
  const auto at = reinterpret_cast<uint64_t>(got);
  TestReplica replica;
  ptrace::RemoteMemory memory(replica.tid());
  SUBCASE("pipe2") {
    CHECK(replica.answer(SYS_pipe2, {at, O_CLOEXEC}).value == 0);
  }
  SUBCASE("socketpair") {
    CHECK(replica.answer(SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, at}).value == 0);
  }
  const auto pair = memory.read_value<std::array<int, 2>>(GuestAddr(at));
  REQUIRE(pair);
  CHECK((*pair)[0] == expected[0]);
  CHECK((*pair)[1] == expected[1]);
  for (const int end : *pair) {
    CHECK(replica.answer(SYS_fcntl, {static_cast<uint64_t>(end), F_GETFL}).value >= 0);
  }
  // The program's own are as they were, whatever the replica closes.
  CHECK(replica.answer(SYS_close_range, {0, ~0U, CLOSE_RANGE_CLOEXEC}).value == 0);
  CHECK(replica.answer(SYS_fcntl, {static_cast<uint64_t>(expected[0]), F_GETFD}).value ==
        FD_CLOEXEC);
  CHECK(replica.answer(SYS_close_range, {static_cast<uint64_t>(expected[0]), ~0U, 0}).value == 0);
  CHECK(replica.answer(SYS_fcntl, {static_cast<uint64_t>(expected[1]), F_GETFD}).value == -EBADF);
  CHECK(::fcntl(world.ends[0], F_GETFD) == FD_CLOEXEC);
}

TEST_CASE("a file is opened as openat2 says, and nothing but files and directories") {
  World world;
  TestReplica replica;
  const auto at = [](const void* p) { return reinterpret_cast<uint64_t>(p); };
  ptrace::RemoteMemory memory(replica.tid());
  const auto open = [&](const char* path, open_how how) {
    REQUIRE(memory.write(GuestAddr(at(world.path)),
                         {reinterpret_cast<const uint8_t*>(path), std::strlen(path) + 1}));
    REQUIRE(memory.write_value(GuestAddr(at(world.buffer)), how));
    return replica.answer(SYS_openat2, {kAtHere, at(world.path), at(world.buffer), sizeof how});
  };
  constexpr auto kEnds = SyscallAnswer::Kind::ends;
  CHECK(open("/proc/self/exe", {O_RDONLY, 0, 0}).value >= 0);
  CHECK(open("/proc/self/exe", {O_RDONLY, 0, RESOLVE_NO_MAGICLINKS}).value == -ELOOP);
  CHECK(open("/nowhere/at/all", {O_RDONLY, 0, 0}).value == -ENOENT);
  CHECK(open("/", {O_RDONLY, 0, RESOLVE_IN_ROOT}).kind == kEnds);
  CHECK(open("/dev/null", {O_RDONLY, 0, 0}).kind == kEnds);
  CHECK(open("/tmp/none", {O_RDONLY | O_CREAT, 0600, 0}).kind == kEnds);
  CHECK(open("/", {O_WRONLY, 0, 0}).kind == kEnds);
}

}  // namespace
}  // namespace shadowprof::shadow
