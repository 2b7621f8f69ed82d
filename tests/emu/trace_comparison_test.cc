// SPDX-License-Identifier: MIT
#include "emu/trace_comparison.h"

#include "guest.h"

#include <doctest/doctest.h>

namespace {

using namespace shadowprof;
using namespace shadowprof::test;

// What executes mov eax, [rdi + rsi * 8 + 16]; add ecx, eax; syscall, where all memory is `data`.
struct Side {
  trace::BlockTable table;
  Guest guest;
  std::vector<trace::Word> words = std::vector<trace::Word>(size_t{1} << 16);

  Side(uint8_t data, uint64_t rsi)
      : guest(table, {0x8b, 0x44, 0xf7, 0x10, 0x01, 0xc1, 0x0f, 0x05}, data) {
    emu::Emulator emulator(table, guest);
    machine::MemoryView memory{guest};
    memory.set_areas(Guest::areas());
    emulator.begin(memory, {.values = true, .addresses = true});
    machine::Registers registers{};
    registers.set_pc(kCode);
    registers.rdi = kData.value;
    registers.rsi = rsi;
    emulator.load(registers, {});
    words.resize(emulator.run(words, 1000).words);
  }
};

emu::Comparison compare(const Side& a, const Side& b, std::vector<GuestRange> shared = {}) {
  emu::TraceComparison comparison(a.table, b.table);
  comparison.set_shared(std::move(shared));
  return comparison.compare("one", a.words, "other", b.words);
}

constexpr GuestRange kLoaded{kData + 24, kData + 28};  // with rsi = 1

}  // namespace

TEST_CASE("traces of the same execution are equal to their end") {
  const emu::Comparison result = compare(Side(3, 1), Side(3, 1));
  CHECK(result.instructions == 3);
  CHECK(!result.difference);
}

TEST_CASE("what the interpreter executes is known to have its values") {
  const Side side(3, 1);
  REQUIRE(side.table.run_count() > 0);
  CHECK(side.table.run(RunId(side.words[0])).captures);
}

TEST_CASE("the first instruction that differs is named") {
  const emu::Comparison result = compare(Side(3, 1), Side(4, 1));
  CHECK(result.instructions == 0);
  REQUIRE(result.difference);
  CHECK(result.difference->find("0x3030303") != std::string::npos);
  CHECK(result.difference->find("0x4040404") != std::string::npos);
}

TEST_CASE("what was loaded from memory of several may differ: the comparison ends there") {
  const emu::Comparison result = compare(Side(3, 1), Side(4, 1), {kLoaded});
  CHECK(result.instructions == 0);
  CHECK(!result.difference);
  CHECK(compare(Side(3, 1), Side(4, 1), {{kData, kLoaded.start}, {kLoaded.end, kData + 999}})
            .difference);
  CHECK(compare(Side(3, 1), Side(3, 1), {kLoaded}).instructions == 3);
}

TEST_CASE("memory of several excuses no other address") {
  CHECK(compare(Side(3, 1), Side(3, 2), {{kData, kData + 4096}}).difference);
}
