// SPDX-License-Identifier: MIT
#include "trace/code_shares.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

namespace shadowprof::trace {
namespace {

RunId add_run(BlockTable& table, GuestAddr start, uint32_t insns) {
  Block block;
  block.start = start;
  block.end = start + insns;
  block.insns = static_cast<uint16_t>(insns);
  const BlockId id = table.add_block(block);
  Run run;
  run.insns = insns;
  return table.add_run(run, {&id, 1}, {});
}

TEST_CASE("instructions are counted by where their run begins") {
  BlockTable table;
  const RunId one = add_run(table, GuestAddr(0x401000), 5);
  const RunId same = add_run(table, GuestAddr(0x401000), 7);
  CodeShares shares{};
  const auto start = sample_start(1);
  std::vector<Word> words(start.begin(), start.end());
  for (RunId run : {one, same, one}) words.push_back(run.value);
  CHECK(sum_records(table, words, shares).instructions == 17);
  CHECK(shares[table.run(one).cell] == 17);
  CHECK(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == 17);
}

TEST_CASE("timed loads are counted by the slots of their run") {
  BlockTable table;
  Block block;
  block.start = GuestAddr(0x401000);
  block.end = GuestAddr(0x401008);
  block.insns = 2;
  const BlockId id = table.add_block(block);
  Run run;
  run.insns = 2;
  const Slot slots[] = {
      {SlotKind::load_cycles, 0, 0}, {SlotKind::value, 1, 0}, {SlotKind::load_cycles, 0, 1}};
  const RunId timed = table.add_run(run, {&id, 1}, slots);
  CodeShares shares{};
  const std::vector<Word> words = {timed.value, 0, 0, 0, 0, 0, 0, timed.value, 0, 0, 0, 0, 0, 0};
  const RecordSums sums = sum_records(table, words, shares);
  CHECK(sums.instructions == 4);
  CHECK(sums.timed_loads == 4);
}

TEST_CASE("code is spread over the cells") {
  BlockTable table;
  std::set<uint8_t> cells;
  for (uint64_t i = 0; i < 10000; i++) {
    const RunId run = add_run(table, GuestAddr(0x401000 + 32 * i), 1);
    cells.insert(table.run(run).cell);
  }
  CHECK(cells.size() == kCodeCells);
}

TEST_CASE("functions that follow one another are in other cells of one region, mostly") {
  constexpr uint64_t kFunction = 0x401000;
  int apart = 0;
  for (uint64_t at = kFunction; at < kFunction + 1024 - 32; at += 32) {
    CHECK(code_region(GuestAddr(at)) == code_region(GuestAddr(kFunction)));
    CHECK(code_cell(GuestAddr(at)) / kCellsOfRegion == code_region(GuestAddr(kFunction)));
    apart += code_cell(GuestAddr(at)) != code_cell(GuestAddr(at + 32));
  }
  CHECK(apart >= 24);  // of 31
  std::array<uint64_t, kCodeCells> cells{};
  cells[7] = 1;
  cells[4] = 2;
  CHECK(by_region(cells)[1] == 3);
}

}  // namespace
}  // namespace shadowprof::trace
