// SPDX-License-Identifier: MIT
//
// Shared memory of the program's in its replicas: they read it, and write to copies.
#include "shadow/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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
