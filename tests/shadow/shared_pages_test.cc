// SPDX-License-Identifier: MIT
//
// Shared memory of the program's in its replicas: they read it, and write to copies.
#include "shadow/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "base/limits.h"
#include "base/unique_fd.h"
#include "test_replica.h"

namespace shadowprof::shadow {
namespace {

constexpr auto kEnds = SyscallAnswer::Kind::ends;
constexpr uint64_t kPage = limits::kPageBytes;
constexpr uint64_t kBytes = 4 * kPage;

// A shared mapping of the program's.
class SharedMemory {
 public:
  explicit SharedMemory(int protection, int fd = -1)
      : start_(
            ::mmap(nullptr, kBytes, protection, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0)) {
    REQUIRE(start_ != MAP_FAILED);
  }
  ~SharedMemory() { ::munmap(start_, kBytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  uint64_t at(uint64_t offset = 0) const { return reinterpret_cast<uint64_t>(start_) + offset; }
  uint8_t* bytes() const { return static_cast<uint8_t*>(start_); }

 private:
  void* start_;
};

std::vector<kernel::Mapping> mappings_at(const TestReplica& replica, uint64_t start,
                                         uint64_t bytes) {
  auto all = kernel::read_maps(replica.tid()).value();
  std::erase_if(all, [&](const kernel::Mapping& m) {
    return !m.range.overlaps({GuestAddr(start), GuestAddr(start + bytes)});
  });
  return all;
}

bool can_write_to_program(const TestReplica& replica) {
  const auto all = kernel::read_maps(replica.tid()).value();
  return std::any_of(all.begin(), all.end(),
                     [](const kernel::Mapping& m) { return m.shared && m.writable; });
}

constexpr uint64_t kBoth = PROT_READ | PROT_WRITE;
constexpr long kPkeyMprotect = 329;
constexpr uint64_t kNoKey = UINT64_MAX;

TEST_CASE("shared memory that the program cannot write yet never becomes writable in a replica") {
  const UniqueFd fd(::memfd_create("shared_pages_test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), kBytes) == 0);
  const SharedMemory mappings[] = {SharedMemory(PROT_NONE), SharedMemory(PROT_READ),
                                   SharedMemory(PROT_NONE, fd.get()),
                                   SharedMemory(PROT_READ, fd.get())};
  TestReplica replica;
  for (const SharedMemory& memory : mappings) {
    CHECK(replica.answer(SYS_mprotect, {memory.at(), kBytes, kBoth}).kind == kEnds);
    CHECK(replica.answer(SYS_mprotect, {memory.at(kPage), kPage, PROT_WRITE}).kind == kEnds);
    CHECK(replica.answer(SYS_mprotect, {memory.at(), 1, kBoth}).kind == kEnds);
    CHECK(replica.answer(kPkeyMprotect, {memory.at(), kBytes, kBoth, kNoKey}).kind == kEnds);
    // Not under another address either.
    CHECK(replica.answer(SYS_mremap, {memory.at(), 0, kBytes, MREMAP_MAYMOVE}).kind == kEnds);
    CHECK(replica.answer(SYS_mremap, {memory.at(kPage), kPage, 2 * kPage, MREMAP_MAYMOVE}).kind ==
          kEnds);
    CHECK(replica.answer(SYS_remap_file_pages, {memory.at(), kPage, 0, 1, 0}).kind == kEnds);
    // What takes rights away is made.
    CHECK(replica.answer(SYS_mprotect, {memory.at(), kBytes, PROT_NONE}).value == 0);
    CHECK(replica.answer(SYS_mprotect, {memory.at(), kBytes, PROT_READ}).value == 0);
  }
  CHECK_FALSE(can_write_to_program(replica));
}

TEST_CASE("where shared memory was, a replica has memory of its own") {
  SharedMemory memory(PROT_READ);
  TestReplica replica;
  SUBCASE("by munmap, and mmap again") {
    CHECK(replica.answer(SYS_munmap, {memory.at(kPage), kPage}).value == 0);
    CHECK(replica
              .answer(SYS_mmap,
                      {memory.at(kPage), kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, ~0U, 0})
              .value == static_cast<int64_t>(memory.at(kPage)));
  }
  SUBCASE("by mmap over it") {
    CHECK(replica
              .answer(SYS_mmap, {memory.at(kPage), kPage, PROT_NONE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, ~0U, 0})
              .value == static_cast<int64_t>(memory.at(kPage)));
  }
  SUBCASE("by mremap to it") {
    alignas(kPage) static char page[kPage];
    CHECK(replica
              .answer(SYS_mremap, {reinterpret_cast<uint64_t>(page), kPage, kPage,
                                   MREMAP_MAYMOVE | MREMAP_FIXED, memory.at(kPage)})
              .value == static_cast<int64_t>(memory.at(kPage)));
  }
  CHECK(replica.answer(SYS_mprotect, {memory.at(kPage), kPage, kBoth}).value == 0);
  CHECK(replica.answer(SYS_mprotect, {memory.at(), kPage, kBoth}).kind == kEnds);
  CHECK(replica.answer(SYS_mprotect, {memory.at(2 * kPage), kPage, kBoth}).kind == kEnds);
  CHECK_FALSE(can_write_to_program(replica));
}

TEST_CASE("a replica's own shared mapping of the program's file is private") {
  char path[] = "/tmp/shared_pages_test.XXXXXX";
  const UniqueFd file(::mkstemp(path));
  const std::string name(path);
  REQUIRE(::ftruncate(file.get(), kBytes) == 0);
  TestReplica replica;
  const auto fd = static_cast<uint64_t>(file.get());
  const SyscallAnswer mapped = replica.answer(SYS_mmap, {0, kBytes, kBoth, MAP_SHARED, fd, 0});
  REQUIRE(mapped.value > 0);
  const auto at = static_cast<uint64_t>(mapped.value);
  for (const kernel::Mapping& m : mappings_at(replica, at, kBytes)) CHECK_FALSE(m.shared);
  CHECK_FALSE(can_write_to_program(replica));
  ::unlink(name.c_str());
}

TEST_CASE("what a replica reads from files goes to copies of shared pages, all of it") {
  char path[] = "/tmp/shared_pages_test.XXXXXX";
  const UniqueFd file(::mkstemp(path));
  const std::string name(path);
  const std::string text(3 * kPage, 'x');
  REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  ::unlink(name.c_str());
  // A page of its own, and shared ones right behind it.
  auto* start = static_cast<uint8_t*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(start != MAP_FAILED);
  REQUIRE(::mmap(start + kPage, kBytes - kPage, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start + kPage);
  static iovec parts[2];
  parts[0] = {start, 10};
  parts[1] = {start + 2 * kPage - 5, kPage};
  TestReplica replica;
  ptrace::RemoteMemory memory(replica.tid());
  const auto fd = static_cast<uint64_t>(file.get());
  const auto at = reinterpret_cast<uint64_t>(start);
  const auto vector = reinterpret_cast<uint64_t>(&parts[0]);
  const auto has = [&](uint64_t from, uint64_t bytes) {
    std::string read(bytes, '?');
    REQUIRE(memory.read(GuestAddr(from), {reinterpret_cast<uint8_t*>(read.data()), bytes}));
    return read == std::string(bytes, 'x');
  };
  SUBCASE("a buffer of which the end is shared") {
    CHECK(replica.answer(SYS_pread64, {fd, at + 100, 3 * kPage, 0}).value ==
          static_cast<int64_t>(3 * kPage));
    CHECK(has(at + 100, 3 * kPage));
  }
  SUBCASE("all of it shared, and more of it than there is to read") {
    CHECK(replica.answer(SYS_pread64, {fd, at + kPage, 3 * kPage, kPage}).value ==
          static_cast<int64_t>(2 * kPage));
    CHECK(has(at + kPage, 2 * kPage));
  }
  SUBCASE("parts") {
    const auto all = static_cast<int64_t>(kPage + 10);
    CHECK(replica.answer(SYS_readv, {fd, vector, 2}).value == all);
    CHECK(has(at + 2 * kPage - 5, kPage));
    CHECK(replica.answer(SYS_preadv, {fd, vector, 2, 0, 0}).value == all);
    CHECK(replica.answer(SYS_lseek, {fd, 0, SEEK_CUR}).value == all);
  }
  CHECK(std::all_of(start + kPage, start + kBytes, [](uint8_t byte) { return byte == 0; }));
  CHECK_FALSE(can_write_to_program(replica));
  ::munmap(start, kBytes);
}

TEST_CASE("a call that writes to shared memory never fails as it would not in the program") {
  SharedMemory memory(PROT_READ | PROT_WRITE);
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  TestReplica replica;
  const auto fd = static_cast<uint64_t>(file.get());
  const auto at = memory.at();
  const auto fails = [&](long nr, const SyscallArguments& args) {
    const SyscallAnswer answer = replica.answer(nr, args);
    return answer.kind == SyscallAnswer::Kind::value && answer.value < 0;
  };
  CHECK_FALSE(fails(SYS_fstat, {fd, at}));
  CHECK_FALSE(fails(SYS_getrandom, {at, 16, 0}));
  CHECK_FALSE(fails(SYS_clock_gettime, {CLOCK_MONOTONIC, at}));
  CHECK_FALSE(fails(SYS_rt_sigaction, {SIGUSR1, 0, at, 8}));
  CHECK_FALSE(fails(SYS_sched_getaffinity, {0, 128, at}));
  CHECK_FALSE(fails(SYS_rt_sigprocmask, {SIG_BLOCK, 0, at, 8}));
  CHECK(memory.bytes()[0] == 0);
}

TEST_CASE("there is no other way to the program's memory") {
  SharedMemory memory(PROT_READ);
  TestReplica replica;
  constexpr uint64_t kHere = static_cast<uint64_t>(int64_t{AT_FDCWD});
  static const char path[] = "/proc/self/mem";
  const auto at = reinterpret_cast<uint64_t>(path);
  CHECK(replica.answer(SYS_openat, {kHere, at, O_RDWR}).kind == kEnds);
  CHECK(replica.answer(SYS_openat, {kHere, at, O_WRONLY}).kind == kEnds);
  CHECK(replica.answer(SYS_shmat, {0, 0, 0}).kind == kEnds);
  CHECK(replica.answer(SYS_process_vm_writev, {0, 0, 0, 0, 0, 0}).kind == kEnds);
  // Pages of a file are not given back.
  CHECK(replica.answer(SYS_madvise, {memory.at(), kPage, MADV_REMOVE}).value == 0);
  CHECK(replica.answer(SYS_madvise, {memory.at(), kPage, MADV_HWPOISON}).kind == kEnds);
  CHECK(replica.answer(SYS_madvise, {memory.at(), kPage, 101}).kind == kEnds);  // _SOFT_OFFLINE
}

}  // namespace
}  // namespace shadowprof::shadow
