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

TEST_CASE("so much of what is executed is in bouts as was asked for") {
  for (const double share : {0.5, 1.0 / 64, 1e-6}) {
    Memory m;
    m.slot.draw_bouts(share);
    const emu::StatePage& page = m.slot.state();
    CHECK(page.bout_left == trace::kBoutExecutions);
    CHECK(page.bout_gap == page.bout_gaps[0]);
    double gaps = 0;
    for (const uint32_t gap : page.bout_gaps) gaps += gap;
    const double bouts = double{trace::kBoutExecutions} * emu::kBoutGaps;
    CHECK(bouts / (bouts + gaps) == doctest::Approx(share).epsilon(0.01));
    CHECK(*std::ranges::max_element(page.bout_gaps) > 3 * gaps / emu::kBoutGaps);
  }
}

TEST_CASE("where all is to be in bouts one follows the other, and where nothing is there is none") {
  Memory m;
  m.slot.draw_bouts(1);
  CHECK(*std::ranges::max_element(m.slot.state().bout_gaps) == 0);
  m.slot.draw_bouts(0);
  CHECK(*std::ranges::min_element(m.slot.state().bout_gaps) > 1'000'000);
  CHECK(m.slot.state().bout_gap == 0);  // the present one goes on
}

}  // namespace
}  // namespace shadowprof::cache
