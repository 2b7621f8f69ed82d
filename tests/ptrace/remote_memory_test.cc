// SPDX-License-Identifier: MIT
#include "ptrace/remote_memory.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "guest.h"

using namespace shadowprof;
using namespace shadowprof::ptrace;
using namespace shadowprof::ptrace::test;

namespace {

constexpr size_t kPage = 4096;

// Four pages with a pattern, of which the test changes the protection; the guest has the same.
class Pages {
 public:
  Pages() {
    void* p =
        ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    data_ = static_cast<uint8_t*>(p);
    for (size_t i = 0; i < 4 * kPage; ++i) data_[i] = static_cast<uint8_t>(i * 7 + i / kPage);
    expected_.assign(data_, data_ + 4 * kPage);
  }
  ~Pages() { ::munmap(data_, 4 * kPage); }
  void protect(size_t page, int protection) { ::mprotect(data_ + page * kPage, kPage, protection); }
  void unmap(size_t page) { ::munmap(data_ + page * kPage, kPage); }
  GuestAddr at(size_t offset) const {
    return GuestAddr(reinterpret_cast<uint64_t>(data_) + offset);
  }
  std::vector<uint8_t> expected(size_t from, size_t length) const {
    const auto start = expected_.begin() + static_cast<ptrdiff_t>(from);
    return {start, start + static_cast<ptrdiff_t>(length)};
  }

 private:
  uint8_t* data_;
  std::vector<uint8_t> expected_;
};

void wait_forever(Shared& shared) {
  shared.ready = 1;
  for (;;) ::pause();
}

// Runs the body with process_vm_readv and then without.
template <typename Body>
void both_ways(Body body) {
  for (bool enabled : {true, false}) {
    CAPTURE(enabled);
    RemoteMemory::set_process_vm_enabled(enabled);
    body();
  }
  RemoteMemory::set_process_vm_enabled(true);
}

}  // namespace

TEST_CASE("a read that runs into unmapped memory returns the readable prefix") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  Guest guest([&](Shared& shared) {
    pages.unmap(2);
    wait_forever(shared);
  });
  guest.seize();
  guest.await_ready();
  both_ways([&] {
    RemoteMemory memory(guest.tid());
    std::vector<uint8_t> bytes(4 * kPage);
    CHECK(memory.read_some(pages.at(100), bytes) == 2 * kPage - 100);
    bytes.resize(2 * kPage - 100);
    CHECK(bytes == pages.expected(100, 2 * kPage - 100));
    CHECK(memory.read_some(pages.at(2 * kPage), bytes) == 0);
    CHECK(memory.read_some(GuestAddr(0), bytes) == 0);
    CHECK(memory.read_some(GuestAddr(~uint64_t{0} - 100), bytes) == 0);
    const Status status = memory.read(pages.at(kPage), std::span(bytes));
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().errno_value == EFAULT);
    CHECK(memory.read_some(pages.at(3 * kPage), bytes) >= kPage);
  });
}

TEST_CASE("pages that the program cannot read are read, between others that it can") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  pages.protect(1, PROT_NONE);
  pages.protect(2, PROT_EXEC);
  Guest guest(wait_forever);
  guest.seize();
  both_ways([&] {
    RemoteMemory memory(guest.tid());
    std::vector<uint8_t> bytes(4 * kPage - 2);
    REQUIRE(memory.read(pages.at(1), bytes).has_value());
    CHECK(bytes == pages.expected(1, 4 * kPage - 2));
  });
  RemoteMemory memory(guest.tid());
  std::vector<uint8_t> bytes(kPage);
  CHECK(memory.read_for_program(pages.at(0), std::span(bytes).first(kPage - 1)).has_value());
  const Status refused = memory.read_for_program(pages.at(kPage - 1), bytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().errno_value == EFAULT);
}

TEST_CASE("write respects the protection, write_code does not") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  pages.protect(1, PROT_READ | PROT_EXEC);
  Guest guest(wait_forever);
  guest.seize();
  RemoteMemory memory(guest.tid());
  const std::vector<uint8_t> code{0xcc, 0x90, 0xcc};
  const Status refused = memory.write(pages.at(kPage + 5), code);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().errno_value == EFAULT);
  std::vector<uint8_t> bytes(3);
  REQUIRE(memory.read(pages.at(kPage + 5), bytes).has_value());
  CHECK(bytes == pages.expected(kPage + 5, 3));

  REQUIRE(memory.write_code(pages.at(kPage + 5), code).has_value());
  REQUIRE(memory.read(pages.at(kPage + 5), bytes).has_value());
  CHECK(bytes == code);
}

TEST_CASE("writes arrive over page ends, by both ways") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  Guest guest(wait_forever);
  guest.seize();
  uint8_t fill = 1;
  both_ways([&] {
    RemoteMemory memory(guest.tid());
    const std::vector<uint8_t> out(kPage + 10, fill++);
    REQUIRE(memory.write(pages.at(kPage - 5), out).has_value());
    std::vector<uint8_t> in(kPage + 10);
    REQUIRE(memory.read(pages.at(kPage - 5), in).has_value());
    CHECK(in == out);
    CHECK_FALSE(memory.write(GuestAddr(16), out).has_value());
    REQUIRE(memory.write_value(pages.at(8), uint64_t{42}).has_value());
    CHECK(memory.read_value<uint64_t>(pages.at(8)).value() == 42);
  });
}

TEST_CASE("strings end at their zero, at the limit or at the end of memory") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  std::string text(300, 'x');
  std::memcpy(reinterpret_cast<void*>(pages.at(2 * kPage - 200).value), text.c_str(), 301);
  Guest guest(wait_forever);
  guest.seize();
  both_ways([&] {
    RemoteMemory memory(guest.tid());
    CHECK(memory.read_string(pages.at(2 * kPage - 200), 4096).value() == text);
    CHECK(memory.read_string(pages.at(2 * kPage - 200), 299).error().errno_value == ENAMETOOLONG);
    CHECK(memory.read_string(GuestAddr(16), 100).error().errno_value == EFAULT);
  });
}

TEST_CASE("memory of a dead process is an error that says so") {
  if (!can_trace()) return;
  Watchdog watchdog;
  Pages pages;
  Guest guest(wait_forever);
  guest.seize();
  both_ways([&] { CHECK(RemoteMemory(guest.tid()).read_value<int>(pages.at(0)).has_value()); });
  ::kill(guest.pid(), SIGKILL);
  guest.run_to_end();
  both_ways([&] {
    RemoteMemory memory(guest.tid());
    const Result<int> value = memory.read_value<int>(pages.at(0));
    REQUIRE_FALSE(value.has_value());
    CHECK(value.error().errno_value == ESRCH);
  });
}
