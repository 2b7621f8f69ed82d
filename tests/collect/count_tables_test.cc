// SPDX-License-Identifier: MIT
//
// Tables from counters.
#include "collect/count_tables.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "made_up.h"

using namespace shadowprof;

namespace {

// Calls of a linkage stub, which jumps to a function, or to what lies right behind it.
struct Code {
  Code() {
    table.add_module(test::one_page_module());
    caller = block(0x1000, 0x1010, 0x1100, trace::Terminator::call);
    stub = block(0x1100, 0x1106, 0, trace::Terminator::indirect_jump);
    behind = block(0x1106, 0x1110, 0x1200, trace::Terminator::jump);
    function = block(0x1300, 0x1310, 0, trace::Terminator::ret);
    other = block(0x1400, 0x1410, 0, trace::Terminator::ret);
    call = run(caller, trace::RunExit::call, GuestAddr(0x1100));
    jump = run(stub, trace::RunExit::indirect_jump, {});
  }
  BlockId block(uint64_t start, uint64_t end, uint64_t target, trace::Terminator terminator) {
    trace::Block b;
    b.start = GuestAddr(start);
    b.end = GuestAddr(end);
    b.last_insn = GuestAddr(end - 1);
    b.target = GuestAddr(target);
    b.insns = 1;
    b.terminator = terminator;
    return table.add_block(b);
  }
  RunId run(BlockId of, trace::RunExit exit, GuestAddr target) {
    trace::Run r;
    r.insns = 1;
    r.exit = exit;
    r.target = target;
    r.last_block_insns = 1;
    const BlockId blocks[] = {of};
    return table.add_run(r, blocks, {});
  }
  profile::Profile collect(uint64_t calls, std::vector<trace::PairCount> pairs) const {
    std::vector<uint64_t> runs(table.run_count());
    runs[call.value] = calls;
    profile::Profile p;
    collect::add_counts(table, runs, pairs, true, {}, p);
    return p;
  }

  trace::BlockTable table;
  BlockId caller, stub, behind, function, other;
  RunId call, jump;
};

uint64_t calls_of(const profile::Profile& p, uint64_t offset) {
  uint64_t sum = 0;
  for (const profile::CallPair& c : p.tables.calls)
    if (c.callee.offset == offset) sum += c.count;
  return sum;
}

}  // namespace

TEST_CASE("what a stub leads to does not depend on how its jumps were counted") {
  const Code c;
  std::vector<trace::PairCount> pairs = {
      {c.jump, c.behind, 1}, {c.jump, c.function, 1}, {c.jump, c.function, 1}};
  do {
    const auto p = c.collect(3, pairs);
    CHECK(calls_of(p, 0x300) == 3);
    CHECK(calls_of(p, 0x106) == 0);
  } while (std::next_permutation(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
    return a.successor.value < b.successor.value;
  }));
}

TEST_CASE("a stub's way to the dynamic linker is not what it leads to, unless there is no other") {
  const Code c;
  CHECK(calls_of(c.collect(2, {{c.jump, c.behind, 1}, {c.jump, c.function, 1}}), 0x300) == 2);
  CHECK(calls_of(c.collect(3, {{c.jump, c.behind, 2}, {c.jump, c.function, 1}}), 0x300) == 3);
  CHECK(calls_of(c.collect(1, {{c.jump, c.behind, 1}}), 0x106) == 1);
}

TEST_CASE("a stub with several targets leads to the most frequent one, or the first of them") {
  const Code c;
  CHECK(calls_of(c.collect(3, {{c.jump, c.function, 1}, {c.jump, c.other, 2}}), 0x400) == 3);
  CHECK(calls_of(c.collect(2, {{c.jump, c.other, 1}, {c.jump, c.function, 1}}), 0x300) == 2);
}
