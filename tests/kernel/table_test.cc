// SPDX-License-Identifier: MIT
//
// That every call of the system's header has a row is checked when table.cc is compiled.
#include "kernel/table.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <climits>
#include <set>
#include <string>

using namespace shadowprof::kernel;

TEST_CASE("every row is found by its number") {
  for (const SyscallRow& row : all_syscalls()) CHECK(find_syscall(row.nr) == &row);
  CHECK(find_syscall(SYS_read)->name == "read");
  CHECK(find_syscall(SYS_newfstatat)->name == "newfstatat");
  // Newer than the oldest header that builds us.
  CHECK(find_syscall(462)->name == "mseal");
  CHECK(find_syscall(335)->name == "uretprobe");
}

TEST_CASE("a number without a row is unknown") {
  // Restarted-call marker, gaps, x32-only numbers, x32 bit, nonsense.
  for (long nr : {-1L, 337L, 400L, 423L, 512L, 547L, 0x40000000L, 1000000L, LONG_MIN, LONG_MAX})
    CHECK(find_syscall(nr) == nullptr);
  CHECK(find_syscall(all_syscalls().back().nr + 1L) == nullptr);
}

TEST_CASE("names and numbers are unique") {
  std::set<std::string_view> names;
  std::set<int> numbers;
  for (const SyscallRow& row : all_syscalls()) {
    CHECK_MESSAGE(names.insert(row.name).second, row.name);
    CHECK_MESSAGE(numbers.insert(row.nr).second, row.nr);
  }
}

TEST_CASE("the classes that the design promises") {
  const auto class_of = [](long nr) { return find_syscall(nr)->syscall_class; };
  for (long nr : {SYS_brk, SYS_munmap, SYS_fstat, SYS_getrusage, SYS_clock_gettime, SYS_sched_yield,
                  SYS_getrandom, SYS_set_tid_address})
    CHECK_MESSAGE(class_of(nr) == SyscallClass::benign, nr);
  for (long nr : {SYS_write, SYS_writev, SYS_ftruncate, SYS_rename, SYS_unlink, SYS_sendto})
    CHECK_MESSAGE(class_of(nr) == SyscallClass::output, nr);
  for (long nr : {SYS_read, SYS_readv, SYS_pread64, SYS_recvfrom, SYS_epoll_wait})
    CHECK_MESSAGE(class_of(nr) == SyscallClass::input, nr);
  for (long nr : {SYS_open, SYS_mmap, SYS_mprotect, SYS_fcntl, SYS_lseek, SYS_futex, SYS_clone,
                  SYS_nanosleep})
    CHECK_MESSAGE(class_of(nr) == SyscallClass::misc, nr);
  for (long nr : {SYS_ioctl, SYS_execve, SYS_fork, SYS_io_uring_enter, SYS_ptrace, SYS_kill,
                  SYS_exit, SYS_exit_group})
    CHECK_MESSAGE(class_of(nr) == SyscallClass::unsafe, nr);
}

TEST_CASE("success is never assumed where a descriptor, a process or an id had to be made up") {
  for (const SyscallRow& row : all_syscalls()) {
    if (row.syscall_class != SyscallClass::output) continue;
    CHECK_MESSAGE(!row.has(SyscallFlag::fd), row.name);
    CHECK_MESSAGE(!row.has(SyscallFlag::returns_fd), row.name);
    CHECK_MESSAGE(!row.has(SyscallFlag::process), row.name);
  }
}

TEST_CASE("a call that sends a signal is never made in a replica") {
  for (long nr : {SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
                  SYS_pidfd_send_signal})
    CHECK(find_syscall(nr)->syscall_class == SyscallClass::unsafe);
}

TEST_CASE("a benign call never waits for anything but entropy") {
  for (const SyscallRow& row : all_syscalls())
    if (row.syscall_class == SyscallClass::benign && row.has(SyscallFlag::blocks))
      CHECK(row.name == "getrandom");
}

TEST_CASE("reasons are one line of text that needs no escaping") {
  for (const SyscallRow& row : all_syscalls()) {
    CHECK_MESSAGE(row.reason.size() <= 100, row.name);
    for (char c : row.reason) CHECK_MESSAGE((c >= ' ' && c <= '~'), row.name);
    CHECK_MESSAGE(!row.reason.ends_with('.'), row.name);
  }
}

TEST_CASE("what is printed follows from the handler, and from what is kept") {
  CHECK(describe(*find_syscall(SYS_getuid)) == "made");
  CHECK(describe(*find_syscall(SYS_fsync)) == "answered: 0");
  CHECK(describe(*find_syscall(SYS_execve)) == "ends the sample");
  CHECK(describe(*find_syscall(SYS_epoll_wait)) ==
        "ends the sample, if no answer to the program is kept");
  CHECK(describe(*find_syscall(SYS_prlimit64)) ==
        "made or ends the sample: made for the process itself");
  CHECK(to_strings(find_syscall(SYS_fcntl)->effects).size() == 3);
}

TEST_CASE("flags have names in a fixed order") {
  CHECK(to_strings(SyscallFlag::none).empty());
  const auto names = to_strings(SyscallFlag::thread_state | SyscallFlag::returns_count);
  REQUIRE(names.size() == 2);
  CHECK(names[0] == "returns_count");
  CHECK(names[1] == "thread_state");
  // Every bit in use has a name.
  for (const SyscallRow& row : all_syscalls()) {
    const auto bits = static_cast<unsigned>(__builtin_popcount(static_cast<unsigned>(row.flags)));
    CHECK_MESSAGE(to_strings(row.flags).size() == bits, row.name);
  }
  CHECK(find_syscall(SYS_write)->has(SyscallFlag::returns_count | SyscallFlag::blocks));
  CHECK_FALSE(find_syscall(SYS_write)->has(SyscallFlag::returns_count | SyscallFlag::fd));
}
