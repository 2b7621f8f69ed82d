// SPDX-License-Identifier: MIT
#include "shadow/input_log.h"

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace shadowprof::shadow {
namespace {

uint64_t at(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

GuestRange range(const void* start, uint64_t bytes) {
  return {GuestAddr(at(start)), GuestAddr(at(start) + bytes)};
}

TEST_CASE("what a call writes is found from its arguments, result and memory") {
  ptrace::RemoteMemory memory{Tid(::getpid())};
  char a[100], b[100];
  SUBCASE("as many bytes as were read") {
    CHECK(*kernel_writes(SYS_read, {3, at(a), 100}, 7, memory) == std::vector{range(a, 7)});
    CHECK(kernel_writes(SYS_read, {3, at(a), 100}, -5, memory)->at(0).size() == 0);
  }
  SUBCASE("vectors are filled one after another") {
    iovec parts[] = {{a, 10}, {b, 100}};
    CHECK(*kernel_writes(SYS_readv, {3, at(parts), 2}, 15, memory) ==
          std::vector{range(a, 10), range(b, 5)});
  }
  SUBCASE("a message has its lengths, name, control data and vector") {
    iovec part{a, 100};
    msghdr header{};
    header.msg_name = b;
    header.msg_namelen = 16;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    const auto found = kernel_writes(SYS_recvmsg, {3, at(&header), 0}, 20, memory);
    REQUIRE(found);
    CHECK(found->at(3) == range(b, 16));
    CHECK(found->back() == range(a, 20));
  }
  SUBCASE("an address is as long as its length says, which comes first") {
    socklen_t length = 8;
    CHECK(*kernel_writes(SYS_accept4, {3, at(a), at(&length), 0}, 9, memory) ==
          std::vector{range(&length, 4), range(a, 8)});
  }
  SUBCASE("events are counted by the result") {
    CHECK(*kernel_writes(SYS_epoll_wait, {3, at(a), 8, 0}, 2, memory) ==
          std::vector{range(a, 2 * sizeof(epoll_event))});
  }
  SUBCASE("an unknown call, or unreadable arguments") {
    CHECK_FALSE(kernel_writes(SYS_io_uring_enter, {}, 1, memory));
    CHECK_FALSE(kernel_writes(SYS_readv, {3, 8, 2}, 15, memory));
  }
}

LoggedCall read_of(uint64_t fd, int64_t result) {
  return {SYS_read, {fd, 0x1000, 64}, result, {{1, 2, 3}}};
}

TEST_CASE("the replica gets the program's answers in their order, each once") {
  const Tid thread(1), other(2);
  InputLog log(Tid(::getpid()), {thread, other}, 1);
  LoggedCall out;
  const SyscallArguments from_5{5, 0x2000, 64}, from_6{6, 0x2000, 64};
  CHECK(log.take(thread, SYS_read, from_5, out) == InputLog::Taken::not_yet);
  log.add(thread, read_of(5, 10));
  log.add(thread, read_of(6, 20));
  log.add(thread, read_of(5, 30));
  CHECK(log.take(other, SYS_read, from_5, out) == InputLog::Taken::not_yet);
  REQUIRE(log.take(thread, SYS_read, from_5, out) == InputLog::Taken::taken);
  CHECK(out.result == 10);
  SUBCASE("another call leaves out what it does not need") {
    REQUIRE(log.take(thread, SYS_read, from_5, out) == InputLog::Taken::taken);
    CHECK(out.result == 30);
    CHECK(log.take(thread, SYS_read, from_6, out) == InputLog::Taken::not_yet);
  }
  SUBCASE("one that wants another number of bytes is another call") {
    CHECK(log.take(thread, SYS_read, {6, 0x2000, 32}, out) == InputLog::Taken::not_yet);
  }
  SUBCASE("a closed log has what it has") {
    log.close();
    CHECK(log.take(thread, SYS_read, from_6, out) == InputLog::Taken::taken);
    CHECK(log.take(thread, SYS_read, from_6, out) == InputLog::Taken::never);
  }
  SUBCASE("threads that it does not follow have no answers") {
    CHECK(log.take(Tid(3), SYS_read, from_5, out) == InputLog::Taken::never);
    CHECK_FALSE(log.follows(Tid(3)));
  }
}

}  // namespace
}  // namespace shadowprof::shadow
