// SPDX-License-Identifier: MIT
//
// Values of made-up records: one block of a load and a conditional branch, captured by a slot.
#include "collect/value_collector.h"

#include <doctest/doctest.h>

namespace {

using namespace shadowprof;
using trace::Word;

// mov rax, [rbx]; jnz back to it.
constexpr uint8_t kCode[] = {0x48, 0x8b, 0x03, 0x75, 0xfb};

struct Loop {
  trace::BlockTable table;
  RunId run;

  Loop() {
    trace::Module module;
    module.path = "/made/up";
    module.inode = 1;
    module.range = {GuestAddr(0x1000), GuestAddr(0x2000)};
    module.file_start = GuestAddr(0x1000);
    trace::Block block;
    block.module = table.add_module(module);
    block.start = GuestAddr(0x1100);
    block.end = GuestAddr(0x1105);
    block.last_insn = GuestAddr(0x1103);
    block.target = block.start;
    block.insns = 2;
    block.terminator = trace::Terminator::conditional;
    const BlockId id = table.add_block(block, kCode);
    trace::Run r;
    r.insns = r.last_block_insns = 2;
    r.exit = trace::RunExit::taken;
    r.target = block.start;
    const trace::Slot slot{trace::SlotKind::value, 0, 0};
    run = table.add_run(r, {&id, 1}, {&slot, 1});
  }
  void add(std::vector<Word>& words, uint64_t value) const {
    words.insert(words.end(),
                 {run.value, static_cast<Word>(value), static_cast<Word>(value >> 32)});
  }
};

profile::ValueFigures figures_of(const Loop& loop, const std::vector<std::vector<Word>>& chunks,
                                 collect::ValueCollectorOptions options = {}) {
  collect::ValueCollector collector(loop.table, options);
  for (const auto& words : chunks) collector.consume({Tid(1), words});
  profile::Profile p;
  collector.finish(p);
  REQUIRE(p.tables.values.size() == 1);
  CHECK(p.tables.values[0].at.offset == 0x100);
  CHECK(p.tables.values[0].text.starts_with("mov rax"));
  return p.tables.values[0].figures;
}

}  // namespace

TEST_CASE("a stream's figures are what they are by hand") {
  const Loop loop;
  std::vector<Word> words;
  // Differences: 0 0 5 5 5 0 -15; equal to the one before them: the 2nd, 4th and 5th.
  for (const uint64_t v : {0, 0, 0, 5, 10, 15, 15, 0}) loop.add(words, v);
  const profile::ValueFigures f = figures_of(loop, {words});
  CHECK(f.count == 8);
  CHECK(f.zero == 4);
  CHECK(f.same == 3);
  CHECK(f.strided == 3);
  CHECK(f.distinct == 4);
  REQUIRE(f.top.size() == 4);
  CHECK(f.top[0].value == 0);
  CHECK(f.top[0].count == 4);
  CHECK(f.top[1].value == 15);
}

TEST_CASE("no prediction is made from one sample to the next") {
  const Loop loop;
  std::vector<Word> words;
  for (int sample = 0; sample < 3; sample++) {
    words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0});
    for (int i = 0; i < 4; i++) loop.add(words, 7);
  }
  const profile::ValueFigures f = figures_of(loop, {words});
  CHECK(f.count == 12);
  CHECK(f.same == 9);
  CHECK(f.strided == 6);
  CHECK(f.invariance() == 1);
}

TEST_CASE("windows give the shares of the whole, and all executions count") {
  const Loop loop;
  collect::ValueCollectorOptions options;
  options.condition = {100, 50, 1000};
  std::vector<std::vector<Word>> chunks;
  profile::Random random(9);
  constexpr uint64_t kChunks = 40, kRecords = 10'000;
  // 70 % are 1, the rest 2 to 9; what comes first is different, and does not weigh more for it.
  for (uint64_t c = 0; c < kChunks; c++) {
    chunks.emplace_back();
    for (uint64_t i = 0; i < kRecords; i++)
      loop.add(chunks.back(), c == 0 && i < 100        ? 50
                              : random.next() % 10 < 7 ? 1
                                                       : 2 + random.next() % 8);
  }
  const profile::ValueFigures f = figures_of(loop, chunks, options);
  CHECK(f.count == kChunks * kRecords);
  CHECK(f.top[0].value == 1);
  // 400 windows of 50: standard error of the share about 0.3 %.
  CHECK(f.invariance() == doctest::Approx(0.7).epsilon(0.03));
  CHECK(f.distinct == 10);
}

TEST_CASE("records that are cut off or unknown end their chunk and are counted") {
  const Loop loop;
  std::vector<Word> words;
  loop.add(words, 1);
  words.push_back(loop.run.value);
  collect::ValueCollector collector(loop.table);
  collector.consume({Tid(1), words});
  const Word unknown[] = {12345};
  collector.consume({Tid(1), unknown});
  profile::Profile p;
  collector.finish(p);
  CHECK(p.coverage.events["corrupt_value_chunks"] == 2);
  CHECK(p.tables.values[0].figures.count == 1);
}
