// SPDX-License-Identifier: MIT
#include "guest.h"

#include <doctest/doctest.h>

namespace {

using namespace shadowprof;

using namespace shadowprof::test;

// rep stosb, then a system call.
const std::vector<uint8_t> kFill = {0xf3, 0xaa, 0x0f, 0x05};
// The same in a loop, a byte of each page: mov [rdi], al; add rdi, 4096; dec rcx; jnz.
const std::vector<uint8_t> kTouchPages = {0x88, 0x07, 0x48, 0x81, 0xc7, 0x00, 0x10, 0x00,
                                          0x00, 0x48, 0xff, 0xc9, 0x75, 0xf2, 0x0f, 0x05};

struct Filler {
  trace::BlockTable table;
  Guest guest;
  emu::Emulator emulator{table, guest};
  machine::MemoryView memory{guest};
  machine::Registers registers{};
  std::vector<uint8_t> extended;
  std::vector<trace::Word> buffer = std::vector<trace::Word>(size_t{1} << 16);

  explicit Filler(uint64_t bytes, const std::vector<uint8_t>& code = kFill) : guest(table, code) {
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

TEST_CASE("an instruction of a loop that goes to a new page each time is no long one") {
  constexpr uint64_t kPages = 300;
  Filler filler(kPages, kTouchPages);
  unsigned turns = 1;
  while (filler.run(50) == emu::StopReason::budget) turns++;
  CHECK(turns >= 2);
  CHECK(filler.registers.rcx == 0);
  CHECK(filler.registers.rdi == kData.value + kPages * kPage);
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
