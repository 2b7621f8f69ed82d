// SPDX-License-Identifier: MIT
#include "shadow/stack_copy.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kPage = 4096;
constexpr GuestAddr kStack(0x10000);
constexpr GuestAddr kPointer = kStack + (2 * kPage + 100);

// Everything has the same content, which changes.
class Memory : public machine::MemorySource {
 public:
  size_t read_some(GuestAddr, std::span<uint8_t> out) override {
    std::fill(out.begin(), out.end(), content);
    return out.size();
  }
  uint8_t content = 1;
};

struct Copied {
  Memory memory;
  StackCopy copy;

  explicit Copied(uint64_t pages) : copy(memory, kPointer, {kStack, kStack + pages * kPage}) {
    memory.content = 2;
  }
  // What is found there; 0: nothing.
  int at(GuestAddr address, size_t bytes = 8) {
    std::vector<uint8_t> found(bytes);
    return copy.read_some(address, found) == bytes ? found.back() : 0;
  }
};

TEST_CASE("a stack is as it was, everything else as it is") {
  Copied copied(4);
  CHECK(copied.at(kPointer) == 1);
  CHECK(copied.at(kPointer.page(), 2 * kPage) == 1);
  CHECK(copied.at(kStack + (4 * kPage - 8)) == 1);
  CHECK(copied.at(kStack - 8) == 2);
  CHECK(copied.at(kStack + 4 * kPage) == 2);
}

TEST_CASE("what was not copied of a stack is not known") {
  Copied copied(1000);
  CHECK(copied.at(kPointer) == 1);
  CHECK(copied.at(kPointer.page() - 8) == 0);
  CHECK(copied.at(kStack + 900 * kPage) == 0);
}

TEST_CASE("of a stack pointer that points elsewhere nothing is copied") {
  Memory memory;
  StackCopy copy(memory, kStack - 100, {kStack, kStack + 4 * kPage});
  uint8_t byte;
  CHECK(copy.read_some(kStack + 8, {&byte, 1}) == 0);
  CHECK(copy.read_some(kStack - 100, {&byte, 1}) == 1);
}

}  // namespace
}  // namespace shadowprof::shadow
