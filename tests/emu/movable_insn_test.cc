// SPDX-License-Identifier: MIT
#include "emu/movable_insn.h"

#include <doctest/doctest.h>

#include <vector>

namespace shadowprof::emu {
namespace {

using Code = std::vector<uint8_t>;

constexpr GuestAddr kStart(0x401000);
const Code kMovEax{0xb8, 1, 0, 0, 0};                      // mov eax, 1
const Code kLoadFromRip{0x48, 0x8b, 0x05, 0x10, 0, 0, 0};  // mov rax, [rip + 0x10]
const Code kAddRdx{0x48, 0x81, 0xc2, 0x80, 0x0c, 0, 0};    // add rdx, 3200
const Code kShort{0x48, 0x01, 0xd8, 0x90};                 // add rax, rbx; nop
const Code kCall{0xe8, 0, 0, 0, 0};
const Code kSyscall{0x0f, 0x05};

Code operator+(Code first, const Code& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_CASE("an instruction with room for a jump is found behind those without") {
  const auto found = first_movable_insn(kShort + kAddRdx + kMovEax, kStart);
  REQUIRE(found);
  CHECK(found->at == kStart + kShort.size());
  CHECK(found->length == kAddRdx.size());
  CHECK(std::equal(kAddRdx.begin(), kAddRdx.end(), found->bytes.begin()));
}

TEST_CASE("what names its own place, or leads elsewhere, does not do the same elsewhere") {
  CHECK_FALSE(first_movable_insn(kLoadFromRip, kStart));
  CHECK_FALSE(first_movable_insn(kCall, kStart));
  CHECK_FALSE(first_movable_insn(kShort + kSyscall, kStart));
  const auto found = first_movable_insn(kLoadFromRip + kMovEax, kStart);
  REQUIRE(found);
  CHECK(found->at == kStart + kLoadFromRip.size());
}

TEST_CASE("who is alone jumps over a lock, into the instruction") {
  const Code lock_cmpxchg{0xf0, 0x48, 0x0f, 0xb1, 0x19};
  CHECK_FALSE(first_movable_insn(lock_cmpxchg, kStart));
}

TEST_CASE("a place on two pages has no room") {
  CHECK_FALSE(first_movable_insn(kMovEax, kStart + 4093));
  CHECK(first_movable_insn(kMovEax, kStart + 4091));
}

TEST_CASE("bytes that are no instruction, or end too early, end the search") {
  CHECK_FALSE(first_movable_insn(Code{0x06} + kMovEax, kStart));
  CHECK_FALSE(first_movable_insn(Code{0xb8, 1, 0}, kStart));
}

}  // namespace
}  // namespace shadowprof::emu
