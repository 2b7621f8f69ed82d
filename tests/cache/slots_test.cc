// SPDX-License-Identifier: MIT
#include "cache/slots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace shadowprof::cache {
namespace {

using emu::SyscallKind;

SyscallKind some_kind(unsigned number) {
  if (number == 3) return SyscallKind::mmap;
  return number >= kListedCalls ? SyscallKind::tracer : SyscallKind::execute;
}

struct Memory {
  Memory() {
    slot.host = bytes.data();
    slot.initialise(some_kind);
  }
  SyscallKind kind(unsigned number) const {
    return static_cast<SyscallKind>(bytes[emu::kSyscallKindsOffset + number]);
  }

  std::vector<uint8_t> bytes = std::vector<uint8_t>(emu::kDataOffset);
  Slot slot;
};

TEST_CASE("the gateway does with calls what their kinds say") {
  const Memory m;
  CHECK(m.kind(0) == SyscallKind::execute);
  CHECK(m.kind(3) == SyscallKind::mmap);
  CHECK(m.kind(kListedCalls) == SyscallKind::tracer);
  CHECK(m.kind(0xffff) == SyscallKind::tracer);
  CHECK(m.slot.initialised);
}

TEST_CASE("calls that are watched stay the tracer's when others are not any more") {
  Memory m;
  m.slot.watch(5);
  CHECK(m.kind(5) == SyscallKind::tracer);
  m.slot.trap_all_calls(true);
  CHECK(m.kind(0) == SyscallKind::tracer);
  m.slot.trap_all_calls(false);
  CHECK(m.kind(0) == SyscallKind::execute);
  CHECK(m.kind(3) == SyscallKind::mmap);
  CHECK(m.kind(5) == SyscallKind::tracer);
}

TEST_CASE("a guard page lies behind each buffer") {
  const Memory m;
  for (size_t i = 0; i < emu::kBufferCount; i++) {
    CHECK(m.slot.guard(i).start.value == m.slot.buffer_guest(i) + limits::kTraceBufferBytes);
    CHECK(m.slot.guard(i).size() == limits::kPageBytes);
  }
  CHECK(m.slot.guard(0).end.value == m.slot.buffer_guest(1));
}

}  // namespace
}  // namespace shadowprof::cache
