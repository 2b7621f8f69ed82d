// SPDX-License-Identifier: MIT
#include "emu/interpreter/emulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace {

using namespace shadowprof;

constexpr GuestAddr kCode{0x400000};
constexpr GuestAddr kData{0x10000000};
constexpr uint64_t kDataBytes = uint64_t{1} << 30;
constexpr uint64_t kPage = limits::kPageBytes;

// A page of code, and much memory that is zero.
class Guest : public machine::MemorySource, public emu::CodeSource {
 public:
  Guest(trace::BlockTable& table, std::vector<uint8_t> code)
      : code_(std::move(code)), module_(table.add_module(module())) {}

  size_t read_some(GuestAddr from, std::span<uint8_t> out) override {
    std::ranges::fill(out, uint8_t{0});
    if (from >= kData) return out.size();
    return fetch(from, out);
  }
  emu::CodeRegion region(GuestAddr address) override {
    emu::CodeRegion region;
    if (!GuestRange{kCode, kCode + kPage}.contains(address)) return region;
    region.range = {kCode, kCode + kPage};
    region.module = module_;
    return region;
  }
  size_t fetch(GuestAddr address, std::span<uint8_t> out) override {
    const uint64_t at = address - kCode;
    if (at >= code_.size()) return 0;
    const size_t size = std::min(out.size(), code_.size() - at);
    std::copy_n(code_.begin() + static_cast<ptrdiff_t>(at), size, out.begin());
    return size;
  }

 private:
  static trace::Module module() {
    trace::Module module;
    module.range = {kCode, kCode + kPage};
    return module;
  }

  std::vector<uint8_t> code_;
  ModuleId module_;
};

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
    memory.set_areas({{{kCode, kCode + kPage}, true, false}, {{kData, kData + kDataBytes}, true, true}});
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
