// SPDX-License-Identifier: MIT
#include "guest.h"

#include <doctest/doctest.h>

namespace {

using namespace shadowprof;

using namespace shadowprof::test;

// rep stosb, then a system call.
struct Filler {
  trace::BlockTable table;
  Guest guest{table, {0xf3, 0xaa, 0x0f, 0x05}};
  emu::Emulator emulator{table, guest};
  machine::MemoryView memory{guest};
  machine::Registers registers{};
  std::vector<uint8_t> extended;
  std::vector<trace::Word> buffer = std::vector<trace::Word>(size_t{1} << 16);

  explicit Filler(uint64_t bytes) {
    memory.set_areas(Guest::areas());
    emulator.begin(memory, {});
    registers.set_pc(kCode);
    registers.rcx = bytes;
    registers.rdi = kData.value;
    registers.rax = 7;
    emulator.load(registers, extended);
  }
  emu::StopReason run(uint64_t news) {
    const emu::StopReason reason = emulator.run(buffer, 1'000'000, news).reason;
    emulator.store(registers, extended);
    return reason;
  }
};

}  // namespace

TEST_CASE("a string instruction that goes over much memory stops on the way") {
  Filler filler(kDataBytes);
  CHECK(filler.run(50) == emu::StopReason::long_string);
  CHECK(filler.registers.pc() == kCode);
  CHECK(filler.registers.rcx < kDataBytes);
  CHECK(filler.registers.rcx + filler.registers.rdi == kDataBytes + kData.value);
  CHECK(filler.memory.fetched() >= 50);
  CHECK(filler.memory.fetched() < 200);

  const uint64_t left = filler.registers.rcx;  // it goes on where it was
  CHECK(filler.run(50) == emu::StopReason::long_string);
  CHECK(filler.registers.rcx < left);

  CHECK(filler.run(UINT64_MAX) == emu::StopReason::long_string);
  CHECK(filler.memory.fetched() < 5000);
}

TEST_CASE("a string instruction over less is executed whole") {
  Filler filler(100 * kPage);
  CHECK(filler.run(UINT64_MAX) == emu::StopReason::system_call);
  CHECK(filler.registers.rcx == 0);
  CHECK(filler.registers.rdi == kData.value + 100 * kPage);
  uint8_t last[2] = {};
  CHECK(filler.memory.read(kData + (100 * kPage - 1), last));
  CHECK(last[0] == 7);
  CHECK(last[1] == 0);
}
