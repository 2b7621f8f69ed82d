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
  CHECK(count_instructions(table, words, shares) == 17);
  CHECK(shares[table.run(one).cell] == 17);
  CHECK(std::accumulate(shares.begin(), shares.end(), uint64_t{0}) == 17);
}

TEST_CASE("code is spread over the cells") {
  BlockTable table;
  std::set<uint8_t> cells;
  for (uint64_t i = 0; i < 1000; i++) {
    const RunId run = add_run(table, GuestAddr(0x401000 + 256 * i), 1);
    CHECK(table.run(run).cell < kCodeCells);
    cells.insert(table.run(run).cell);
  }
  CHECK(cells.size() == kCodeCells);
}

}  // namespace
}  // namespace shadowprof::trace
