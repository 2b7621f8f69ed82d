// SPDX-License-Identifier: MIT
#include "trace/block_table.h"

#include <doctest/doctest.h>

#include <array>

namespace shadowprof::trace {
namespace {

Block block_at(uint64_t start, uint16_t insns) {
  Block b;
  b.start = GuestAddr(start);
  b.end = GuestAddr(start + 4u * insns);
  b.insns = insns;
  return b;
}

Run run_of(uint32_t insns, RunExit exit) {
  Run run;
  run.insns = insns;
  run.exit = exit;
  return run;
}

TEST_CASE("ids count up from zero and name what was added") {
  BlockTable table;
  Module file;
  file.path = "/bin/x";
  file.range = {GuestAddr(1), GuestAddr(9)};
  file.file_start = GuestAddr(1);
  const ModuleId module = table.add_module(file);
  CHECK(module.value == 0);
  CHECK(table.module(module).path == "/bin/x");
  CHECK(table.add_block(block_at(0x1000, 3)).value == 0);
  const BlockId second = table.add_block(block_at(0x2000, 5));
  CHECK(second.value == 1);
  CHECK(table.block(second).start == GuestAddr(0x2000));
  CHECK(table.block_count() == 2);
}

TEST_CASE("a run keeps its own blocks and slots, and knows its record's length") {
  BlockTable table;
  const BlockId a = table.add_block(block_at(0x1000, 3));
  const BlockId b = table.add_block(block_at(0x2000, 5));
  const std::array<BlockId, 2> both{a, b};
  const std::array<BlockId, 1> one{b};
  const std::array<Slot, 3> slots{
      {{SlotKind::value, 0, 1}, {SlotKind::base, 15, 2}, {SlotKind::load_cycles, 3, 2}}};
  const RunId first = table.add_run(run_of(8, RunExit::taken), both, slots);
  const RunId second = table.add_run(run_of(5, RunExit::ret), one, {});

  const Run& run = table.run(first);
  CHECK(run.words == 7);
  CHECK(run.first_block == a);
  REQUIRE(table.blocks(run).size() == 2);
  CHECK(table.blocks(run)[1] == b);
  REQUIRE(table.slots(run).size() == 3);
  CHECK(table.slots(run)[1].reg == 15);
  CHECK(table.run(second).words == 1);
  CHECK(table.blocks(table.run(second))[0] == b);
  CHECK(table.slots(table.run(second)).empty());
}

TEST_CASE("entries stay where they are while the table grows") {
  BlockTable table;
  const BlockId first = table.add_block(block_at(0x1000, 1));
  const Block* where = &table.block(first);
  for (uint64_t i = 0; i < 100'000; i++) table.add_block(block_at(0x2000 + i, 1));
  CHECK(&table.block(first) == where);
  CHECK(where->start == GuestAddr(0x1000));
}

TEST_CASE("exits that the next record decides, and calls") {
  for (int i = 0; i <= static_cast<int>(RunExit::interrupted); i++) {
    const auto e = static_cast<RunExit>(i);
    const bool indirect =
        e == RunExit::indirect_jump || e == RunExit::indirect_call || e == RunExit::ret;
    CHECK(is_indirect(e) == indirect);
    CHECK(is_call(e) == (e == RunExit::call || e == RunExit::indirect_call));
    CHECK(std::string(to_string(e)) != "?");
  }
  for (int i = 0; i <= static_cast<int>(Terminator::native); i++) {
    CHECK(std::string(to_string(static_cast<Terminator>(i))) != "?");
  }
}

}  // namespace
}  // namespace shadowprof::trace
