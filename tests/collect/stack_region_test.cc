// SPDX-License-Identifier: MIT
#include "collect/regions/stack_region.h"

#include <doctest/doctest.h>

namespace shadowprof {
namespace {

using collect::RegionStep;
using collect::StackRegion;

constexpr uint64_t kEntry = 0x7fff'0000'1000;
constexpr uint64_t kOther = 0x0000'0080'0000;

// One thread, run after run.
class Walk {
 public:
  Walk& at(uint64_t stack) { return step({stack, false, false, 0}); }
  Walk& enter(uint64_t stack) { return step({stack, true, false, 0}); }
  Walk& loads(uint64_t stack) { return step({stack, false, true, 0}); }
  Walk& returns(uint64_t stack) { return step({stack, false, false, 8}); }
  bool open() const { return region.is_open(); }

  StackRegion region;

 private:
  Walk& step(const RegionStep& run) {
    region.step(run);
    return *this;
  }
};

TEST_CASE("a region lasts from the entry to the return, through calls and recursion") {
  Walk walk;
  CHECK(!walk.at(kEntry + 100).open());
  CHECK(walk.enter(kEntry).open());
  CHECK(walk.at(kEntry - 64).open());
  CHECK(walk.enter(kEntry - 128).open());
  CHECK(walk.returns(kEntry - 128).open());
  CHECK(walk.returns(kEntry).open());
  CHECK(!walk.at(kEntry + 8).open());
  CHECK(walk.region.entries() == 1);
}

TEST_CASE("a jump out of the activation ends it, and one within it does not") {
  Walk walk;
  walk.enter(kEntry).at(kEntry - 4096).loads(kEntry - 8192);
  CHECK(walk.at(kEntry - 32).open());
  walk.loads(kEntry - 64);
  CHECK(!walk.at(kEntry + 200).open());
  SUBCASE("and it stays ended where the stack is used again") {
    walk.at(kEntry - 32).loads(kEntry - 64);
    CHECK(!walk.at(kEntry - 40).open());
  }
}

TEST_CASE("what runs on another stack is not within, and the region goes on after that") {
  Walk walk;
  walk.enter(kEntry).loads(kEntry - 64);
  CHECK(!walk.at(kOther).open());
  CHECK(!walk.loads(kOther - 16).open());
  CHECK(walk.at(kEntry - 56).open());
  CHECK(!walk.returns(kEntry).at(kEntry + 8).open());
  CHECK(walk.region.entries() == 1);

  SUBCASE("a higher one, too, however near") {
    walk.enter(kEntry).loads(kEntry - 64);
    CHECK(!walk.at(kEntry + 500).open());
    walk.loads(kEntry + 400);
    CHECK(walk.at(kEntry - 56).open());
  }
}

TEST_CASE("a handler is within if it has interrupted the region, on any stack") {
  Walk walk;
  walk.enter(kEntry).at(kEntry - 64);
  walk.region.signal_delivered();
  CHECK(walk.at(kOther).open());
  CHECK(walk.at(kOther - 64).open());
  CHECK(walk.at(kOther + 8).open());  // what it returns to
  walk.region.signal_returned();
  CHECK(walk.at(kEntry - 64).open());
  CHECK(!walk.returns(kEntry).at(kEntry + 8).open());
}

TEST_CASE("a handler that is left by a jump is over") {
  Walk walk;
  walk.enter(kEntry).at(kEntry - 64);
  walk.region.signal_delivered();
  SUBCASE("out of the region") {
    walk.at(kOther).loads(kOther - 64);
    CHECK(!walk.at(kEntry + 64).open());
  }
  SUBCASE("into it") {
    walk.at(kEntry - 1024).loads(kEntry - 1100);
    CHECK(walk.at(kEntry - 80).open());
    CHECK(!walk.returns(kEntry).at(kEntry + 8).open());
  }
}

TEST_CASE("a handler may enter the region that it has not interrupted") {
  Walk walk;
  walk.at(kEntry);
  walk.region.signal_delivered();
  CHECK(!walk.at(kEntry - 1024).open());
  CHECK(walk.enter(kEntry - 1100).open());
  walk.returns(kEntry - 1100);
  CHECK(!walk.at(kEntry - 1092).open());
  walk.region.signal_returned();
  CHECK(!walk.at(kEntry).open());
  CHECK(walk.region.entries() == 1);
}

}  // namespace
}  // namespace shadowprof
