// SPDX-License-Identifier: MIT
//
// Each row of the system call table is made in a replica, with arguments of many kinds, and what
// happens is compared with what `shadowprof syscalls` prints for it.
//
// Whether a call was made is told by the kernel: to make one, the stopped replica has to run, and
// that is a context switch of its thread.
#include "shadow/system_calls.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "test_replica.h"

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
  // As limits of resources these are refused: with a limit of no processor time a replica is
  // killed.
  const open_how how{O_CLOEXEC, 0, 0};
  alignas(4096) char path[4096];
  alignas(4096) char buffer[4096];
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

// What calls mean that need more than one argument to be right.
std::vector<SyscallArguments> known_forms(const World& world, long nr) {
  constexpr uint64_t kSize = 2;  // FUTEX2_SIZE_U32
  const auto buffer = reinterpret_cast<uint64_t>(world.buffer);
  switch (nr) {
    case SYS_select:
    case SYS_pselect6:
      return {{0, 0, 0, 0, buffer, 0}};
    case SYS_arch_prctl:
      return {{ARCH_GET_FS, buffer}};
    case SYS_sendfile:
      return {
          {static_cast<uint64_t>(world.ends[1]), static_cast<uint64_t>(world.file.get()), 0, 8}};
    case 454:  // futex_wake
      return {{buffer, 1, 1, kSize}};
    case 455:  // futex_wait, for another value
      return {{buffer, 1, 1, kSize, 0, 0}};
    default:
      return {};
  }
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
  for (const SyscallArguments& args : known_forms(world, nr))
    seen = seen | effect_of(replica, nr, args);
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

TEST_CASE("a thread is told the bases of its segments, and gets the one of FS that it asks for") {
  World world;
  TestReplica replica;
  ptrace::RemoteMemory memory(replica.tid());
  const auto at = reinterpret_cast<uint64_t>(world.buffer);
  replica.fs_base = 0x1234;
  CHECK(replica.answer(SYS_arch_prctl, {ARCH_GET_FS, at}).value == 0);
  CHECK(memory.read_value<uint64_t>(GuestAddr(at)).value() == 0x1234);
  const SyscallAnswer set = replica.answer(SYS_arch_prctl, {ARCH_SET_FS, 0x5000});
  CHECK(set.value == 0);
  CHECK(set.fs_base == 0x5000);
  const SyscallAnswer refused = replica.answer(SYS_arch_prctl, {ARCH_SET_FS, uint64_t{1} << 47});
  CHECK(refused.value == -EPERM);
  CHECK_FALSE(refused.fs_base);
  CHECK(replica.answer(SYS_arch_prctl, {ARCH_SET_GS, 0}).kind == SyscallAnswer::Kind::ends);
}

TEST_CASE("a wait for nothing but time is over, and one without end ends the sample") {
  using Kind = SyscallAnswer::Kind;
  World world;
  TestReplica replica;
  ptrace::RemoteMemory memory(replica.tid());
  const auto at = reinterpret_cast<uint64_t>(world.buffer);
  const auto wait = [&](long nr, const SyscallArguments& args) {
    REQUIRE(memory.write_value(GuestAddr(at), timespec{3, 5}));
    return replica.answer(nr, args).kind;
  };
  const auto left = [&] { return memory.read_value<timespec>(GuestAddr(at)).value(); };
  CHECK(wait(SYS_select, {0, 0, 0, 0, at}) == Kind::yields);
  CHECK(left().tv_sec == 0);
  CHECK(wait(SYS_pselect6, {0, 0, 0, 0, at, 0}) == Kind::yields);
  CHECK(wait(SYS_ppoll, {0, 0, at, 0, 0}) == Kind::yields);
  CHECK(left().tv_nsec == 0);
  CHECK(wait(SYS_poll, {0, 0, 1000}) == Kind::yields);
  CHECK(wait(SYS_select, {0, 0, 0, 0, 0}) == Kind::ends);
  CHECK(wait(SYS_ppoll, {0, 0, 0, 0, 0}) == Kind::ends);
  CHECK(wait(SYS_poll, {0, 0, ~0U}) == Kind::ends);
  CHECK(wait(SYS_select, {1, at, 0, 0, at}) == Kind::ends);
}

TEST_CASE("a timer that the replica has made a descriptor of is set and asked for") {
  World world;
  TestReplica replica;
  ptrace::RemoteMemory memory(replica.tid());
  const auto at = reinterpret_cast<uint64_t>(world.buffer);
  const auto made = replica.answer(SYS_timerfd_create, {CLOCK_MONOTONIC, TFD_CLOEXEC});
  REQUIRE(made.value >= 0);
  const auto fd = static_cast<uint64_t>(made.value);
  REQUIRE(memory.write_value(GuestAddr(at), itimerspec{{0, 0}, {1000, 0}}));
  CHECK(replica.answer(SYS_timerfd_settime, {fd, 0, at, 0}).value == 0);
  REQUIRE(memory.write_value(GuestAddr(at), itimerspec{}));
  CHECK(replica.answer(SYS_timerfd_gettime, {fd, at}).value == 0);
  CHECK(memory.read_value<itimerspec>(GuestAddr(at)).value().it_value.tv_sec >= 900);
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
  CHECK(open("/tmp/none", {O_RDWR | O_CREAT, 0600, RESOLVE_NO_SYMLINKS}).kind == kEnds);
  CHECK(open("/dev/null", {O_WRONLY | O_TRUNC, 0, 0}).kind == kEnds);
}

}  // namespace
}  // namespace shadowprof::shadow
