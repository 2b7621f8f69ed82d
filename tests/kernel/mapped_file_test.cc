// SPDX-License-Identifier: MIT
#include "kernel/mapped_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace shadowprof;
using namespace shadowprof::kernel;

namespace {

constexpr size_t kPage = 4096;

// A page of a new file, mapped by this process.
class MappedPage {
 public:
  MappedPage() : fd_(::mkstemp(path_.data())) {
    REQUIRE(fd_.valid());
    REQUIRE(::ftruncate(fd_.get(), kPage) == 0);
    address_ = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd_.get(), 0);
    REQUIRE(address_ != MAP_FAILED);
  }
  ~MappedPage() {
    ::munmap(address_, kPage);
    ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  Mapping mapping() const {
    const auto maps = read_maps(Tid(::getpid()));
    REQUIRE(maps.has_value());
    for (const Mapping& m : *maps)
      if (m.range.contains(GuestAddr(reinterpret_cast<uint64_t>(address_)))) return m;
    FAIL("it is not mapped");
    return {};
  }

 private:
  std::string path_ = "/tmp/shadowprof-test-XXXXXX";
  UniqueFd fd_;
  void* address_ = nullptr;
};

// /proc/PID/map_files is not for everybody.
bool may_follow_map_files(const Mapping& m) {
  char name[80];
  std::snprintf(name, sizeof name, "/proc/self/map_files/%lx-%lx",
                static_cast<unsigned long>(m.range.start.value),
                static_cast<unsigned long>(m.range.end.value));
  return ::access(name, R_OK) == 0;
}

}  // namespace

TEST_CASE("a file that its name leads to is not kept open") {
  const MappedPage page;
  CHECK_FALSE(open_unreachable(Tid(::getpid()), page.mapping()).valid());
}

TEST_CASE("a file that was deleted, or whose name another one has taken, is opened all the same") {
  const MappedPage page;
  const Mapping before = page.mapping();
  if (!may_follow_map_files(before)) {
    MESSAGE("skipped: no right to follow /proc/PID/map_files");
    return;
  }
  REQUIRE(::unlink(page.path().c_str()) == 0);
  CHECK(open_unreachable(Tid(::getpid()), page.mapping()).valid());
  const UniqueFd other(::open(page.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(other.valid());
  const UniqueFd found = open_unreachable(Tid(::getpid()), before);
  REQUIRE(found.valid());
  CHECK(::lseek(found.get(), 0, SEEK_END) == kPage);
}

TEST_CASE("what is no regular file is not opened") {
  Mapping device;
  device.path = "/dev/null";
  device.inode = 1;
  CHECK_FALSE(open_unreachable(Tid(::getpid()), device).valid());
  Mapping anonymous;
  CHECK_FALSE(open_unreachable(Tid(::getpid()), anonymous).valid());
}
