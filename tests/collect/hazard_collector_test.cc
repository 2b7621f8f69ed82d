// SPDX-License-Identifier: MIT
#include "collect/loads/hazard_collector.h"

#include <doctest/doctest.h>

#include "memory_trace.h"

namespace {

using namespace shadowprof;
using profile::AccessPairRow;
using profile::PairKind;
using test::kHeap;

struct HazardTrace : test::MemoryTrace {
  profile::AccessPairTable hazards(bool sampled = false) {
    return collect(collect::make_hazard_collector, sampled).tables.hazards;
  }
};

}  // namespace

TEST_CASE("a load that a recent store overlaps and does not contain cannot be forwarded to") {
  HazardTrace t;
  const RunId store = t.store1(), load = t.load4();
  for (int i = 0; i < 5; i++) {
    t.at(store, kHeap + 3);
    t.at(load, kHeap);
  }
  t.at(load, kHeap + 8);
  const auto rows = t.hazards();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == PairKind::forwarding);
  CHECK(rows[0].from.offset == t.offset_of(store));
  CHECK(rows[0].to.offset == t.offset_of(load));
  CHECK(rows[0].count == 5);
  CHECK(rows[0].executions == 6);
  CHECK(rows[0].distance == 5);
  CHECK(rows[0].from_text == "mov [rbx], al");
}

TEST_CASE("a load within a store is no hazard, whatever was stored before") {
  HazardTrace t;
  const RunId narrow = t.store1(), wide = t.store8(), load = t.load4();
  t.at(narrow, kHeap + 1);
  t.at(wide, kHeap);
  t.at(load, kHeap);
  t.at(load, kHeap + 4);
  CHECK(t.hazards().empty());
}

TEST_CASE("two stores together are no store that contains a load") {
  HazardTrace t;
  const RunId first = t.store4(), second = t.store4(), load = t.load8();
  t.at(first, kHeap);
  t.at(second, kHeap + 4);
  t.at(load, kHeap);
  const auto rows = t.hazards();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].from.offset == t.offset_of(second));
}

TEST_CASE("addresses that agree in the low 12 bits alias, equal ones do not") {
  HazardTrace t;
  const RunId store = t.store8(), load = t.load8();
  t.at(store, kHeap + 0x3010);
  t.at(load, kHeap + 0x10);
  t.at(load, kHeap + 0x14);  // overlaps in part
  t.at(load, kHeap + 0x18);
  t.at(load, kHeap + 0x3010);
  const auto rows = t.hazards();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == PairKind::aliasing);
  CHECK(rows[0].count == 2);
  CHECK(rows[0].executions == 4);
}

TEST_CASE("a store that is further behind does not count") {
  HazardTrace t;
  const RunId store = t.store1(), other = t.store1(), load = t.load4();
  const auto hazards_behind = [&](int stores) {
    t.clear();
    t.at(store, kHeap);
    for (int i = 0; i < stores; i++) t.at(other, kHeap + 0x100);
    t.at(load, kHeap);
    return t.hazards().size();
  };
  CHECK(hazards_behind(63) == 1);
  CHECK(hazards_behind(64) == 0);

  t.clear();
  t.at(store, kHeap);
  for (int i = 0; i < 199; i++) t.at(load, kHeap + 0x100);
  t.at(load, kHeap);
  t.at(load, kHeap);  // the 201st
  const auto rows = t.hazards();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 1);
}

TEST_CASE("a locked instruction, a system call and a signal empty the window") {
  HazardTrace t;
  const RunId store = t.store1(), load = t.load4();
  const RunId locked = t.insn({0xf0, 0xff, 0x03});  // lock inc dword [rbx]
  const RunId system_call = t.insn({0x0f, 0x05}, trace::RunExit::syscall);
  t.at(store, kHeap);
  t.at(locked, kHeap + 0x100);
  t.at(load, kHeap);
  t.at(store, kHeap);
  t.at(system_call, 0);
  t.at(load, kHeap);
  t.at(store, kHeap);
  t.mark(trace::gap(trace::GapReason::signal_delivered));
  t.at(load, kHeap);
  t.at(store, kHeap);
  t.go_on_with(Tid(2));
  t.at(load, kHeap);
  CHECK(t.hazards().empty());
}

TEST_CASE("accesses across lines and pages, by instruction") {
  HazardTrace t;
  const RunId store = t.store4(), load = t.load8();
  for (uint64_t i = 0; i < 64; i++) t.at(load, kHeap + 4096 - 64 + i);
  t.at(store, kHeap + 60);
  t.at(store, kHeap + 61);
  const auto rows = t.hazards();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].kind == PairKind::load_line_split);
  CHECK(rows[0].count == 7);
  CHECK(rows[0].executions == 64);
  CHECK(rows[1].kind == PairKind::store_line_split);
  CHECK(rows[1].count == 1);
  CHECK(rows[2].kind == PairKind::load_page_split);
  CHECK(rows[2].count == 7);
}

TEST_CASE("samples follow on nothing, and shares have errors") {
  HazardTrace t;
  const RunId store = t.store1(), load = t.load4();
  // In every other execution, in three samples.
  for (uint64_t sample = 1; sample <= 3; sample++) {
    t.mark(trace::sample_start(sample));
    t.at(load, kHeap);
    for (int i = 0; i < 300; i++) {
      t.at(store, i % 2 == 0 ? kHeap : kHeap + 0x100);
      t.at(load, kHeap);
      for (int k = 0; k < 100; k++) t.at(store, kHeap + 0x200);
    }
    t.at(store, kHeap);
    t.mark(trace::sample_end(trace::EndReason::budget));
  }
  const auto rows = t.hazards(true);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].executions == 3 * 298);  // not those of the first 200 instructions
  CHECK(rows[0].count == 3 * 149);
  CHECK(rows[0].error == 0);  // each sample said the same
}

TEST_CASE("of one sample it is not known how far off it is") {
  HazardTrace t;
  const RunId store = t.store1(), load = t.load4();
  t.mark(trace::sample_start(1));
  for (int i = 0; i < 300; i++) {
    t.at(store, kHeap);
    t.at(load, kHeap);
  }
  t.mark(trace::sample_end(trace::EndReason::budget));
  const auto rows = t.hazards(true);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 200);
  CHECK(rows[0].error == rows[0].executions);
}

TEST_CASE("a corrupt chunk is left where it is corrupt") {
  HazardTrace t;
  const RunId store = t.store1(), load = t.load4();
  t.at(store, kHeap);
  t.at(load, kHeap);
  t.words.push_back(12345);
  CHECK(t.hazards().size() == 1);
  t.words.back() = load.value;  // without its address
  const profile::Profile p = t.collect(collect::make_hazard_collector);
  CHECK(p.coverage.events.at("hazard_corrupt_chunks") == 1);
}
