// SPDX-License-Identifier: MIT
#include "shadow/file_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "../temporary_folder.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "ptrace/wait.h"
#include "shadow/replica.h"
#include "shadow/shared_pages.h"
#include "twin.h"

namespace shadowprof::shadow {
namespace {

// An executable file that is mapped to be written to, by us alone at first.
class MappedProgram {
 public:
  MappedProgram() {
    std::ostringstream bytes;
    bytes << std::ifstream("/bin/true", std::ios::binary).rdbuf();
    path_ = folder_.write("true", bytes.view(), 0700);
    size_ = bytes.view().size();
    const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~MappedProgram() { unmap(); }
  MappedProgram(const MappedProgram&) = delete;
  MappedProgram& operator=(const MappedProgram&) = delete;

  void unmap() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
    memory_ = nullptr;
  }
  GuestAddr address() const { return GuestAddr(reinterpret_cast<uint64_t>(memory_)); }
  // It takes the right to.
  bool can_see_mappings() const {
    const GuestAddr end = (address() + size_ + limits::kPageBytes - 1).page();
    const std::string link =
        fmt::format("/proc/self/map_files/{:x}-{:x}", address().value, end.value);
    struct stat status;
    return ::stat(link.c_str(), &status) == 0;
  }
  // Its exit status, or why it cannot be executed.
  int execute() const {
    return test::exit_status_of([&] {
      ::execl(path_.c_str(), "true", nullptr);
      return errno;
    });
  }

 private:
  const test::TemporaryFolder folder_;
  std::string path_;
  size_t size_ = 0;
  void* memory_ = nullptr;
};

TEST_CASE("a file that a replica has mapped may be executed") {
  MappedProgram program;
  if (!program.can_see_mappings()) return;
  const GuestAddr address = program.address();
  const Twin twin;
  const ptrace::Tracee tracee = ptrace::seize(twin.tid(), kReplica.options).value();
  REQUIRE(tracee.interrupt_if_alive());
  REQUIRE(ptrace::wait_for_stop(twin.tid()));
  const auto mappings = kernel::read_maps(twin.tid()).value();
  CHECK(has_shared_files(mappings));
  program.unmap();
  CHECK(program.execute() == ETXTBSY);

  ptrace::RemoteMemory memory(twin.tid());
  const GuestAddr syscall_insn =
      ptrace::find_syscall_instruction(kernel::executable_ranges(mappings), memory).value();
  const uint32_t first = memory.read_value<uint32_t>(address).value();
  ptrace::RemoteSyscalls remote(tracee, syscall_insn, kReplica);
  REQUIRE(Descriptors::leave_table(remote));
  const auto anew = map_files_anew(remote, mappings, Descriptors::of(Tid(::getpid())));
  REQUIRE(remote.finish());
  REQUIRE(anew.size() == 1);
  CHECK(anew[0].start == address);
  CHECK(program.execute() == 0);
  CHECK(memory.read_value<uint32_t>(address).value() == first);
  auto now = kernel::read_maps(twin.tid()).value();
  CHECK(!has_shared_files(now));

  // The program writes to it, so a store of the replica's is made to a copy.
  SharedPages shared;
  ptrace::RemoteSyscalls again(tracee, syscall_insn, kReplica);
  show_as_in_program(now, anew);
  REQUIRE(shared.protect(again, now));
  CHECK(shared.contains(address));
  CHECK(shared.has_writable());
  REQUIRE(again.finish());
}

}  // namespace
}  // namespace shadowprof::shadow
