// SPDX-License-Identifier: MIT
#include "shadow/placement.h"

#include <sched.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "../child_process.h"
#include "base/pipe.h"
#include "twin.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

// A process that is on one core and does nothing.
class Pinned {
 public:
  explicit Pinned(size_t core) {
    Pipe pinned;
    REQUIRE(pinned.open());
    child_.emplace([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      const char byte = ::sched_setaffinity(0, sizeof one, &one) == 0;
      if (::write(pinned.writer.get(), &byte, 1) != 1) return;
      for (;;) ::pause();
    });
    pinned.writer.reset();
    char byte = 0;
    REQUIRE(::read(pinned.reader.get(), &byte, 1) == 1);
    REQUIRE(byte == 1);
  }
  Tid tid() const { return child_->tid(); }

 private:
  std::optional<test::ChildProcess> child_;
};

std::vector<size_t> cores_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(::sched_getaffinity(thread, sizeof set, &set) == 0);
  std::vector<size_t> cores;
  for (size_t core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::vector<size_t> without(std::vector<size_t> cores, size_t core) {
  std::erase(cores, core);
  return cores;
}

TEST_CASE("our threads keep away from the program's core as long as any of its replicas lives") {
  const std::vector<size_t> all = cores_of(0);
  if (all.size() < 2) {
    MESSAGE("not tried: there is one core only");
    return;
  }
  const Pinned program(all[0]), another(all[1]);
  const Twin first, second;
  Placement placement;
  placement.start(first.tid(), program.tid());
  CHECK(cores_of(0) == without(all, all[0]));
  CHECK(cores_of(first.tid().value) == without(all, all[0]));
  SUBCASE("of the same core") {
    {
      Placement other;
      other.start(second.tid(), program.tid());
      CHECK(cores_of(0) == without(all, all[0]));
    }
    CHECK(cores_of(0) == without(all, all[0]));
  }
  SUBCASE("of another program's") {
    {
      Placement other;
      other.start(second.tid(), another.tid());
      CHECK(cores_of(0) == without(all, all[1]));
      CHECK(cores_of(first.tid().value) == without(all, all[0]));
    }
    CHECK(cores_of(0) == without(all, all[0]));
  }
  SUBCASE("the older one ends first") {
    Placement other;
    other.start(second.tid(), another.tid());
    placement.rest();
    CHECK(cores_of(0) == without(all, all[1]));
    other.rest();
    CHECK(cores_of(0) == all);
  }
  placement.rest();
  CHECK(cores_of(0) == all);
}

}  // namespace
}  // namespace shadowprof::shadow
