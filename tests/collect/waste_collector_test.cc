// SPDX-License-Identifier: MIT
#include "collect/loads/waste_collector.h"

#include <doctest/doctest.h>

#include "collect/loads/waste_thread.h"
#include "memory_trace.h"

namespace {

using namespace shadowprof;
using profile::AccessPairRow;
using profile::PairKind;
using test::kHeap;

struct WasteTrace : test::MemoryTrace {
  const profile::AccessPairTable& waste(bool sampled = false) {
    return table_ = collect(collect::make_waste_collector, sampled).tables.waste;
  }
  size_t rows() { return waste().size(); }
  void between(RunId before, RunId after, auto what, RunId last) {
    clear();
    at(before, kHeap);
    what();
    at(after, kHeap);
    at(last, kHeap);
  }

 private:
  profile::AccessPairTable table_;
};

}  // namespace

TEST_CASE("a store that another one overwrites before a load is dead") {
  WasteTrace t;
  const RunId first = t.store8(), second = t.store8(), load = t.load8();
  for (int i = 0; i < 10; i++) {
    t.at(first, kHeap);
    t.at(second, kHeap);
    t.at(load, kHeap);
  }
  t.at(first, kHeap + 0x100);
  const auto& rows = t.waste();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == PairKind::dead_store);
  CHECK(rows[0].from.offset == t.offset_of(first));
  CHECK(rows[0].to.offset == t.offset_of(second));
  CHECK(rows[0].count == 10);
  CHECK(rows[0].executions == 11);
  CHECK(rows[0].unknown == 1);  // the last one was open when the trace ended
  CHECK(rows[0].distance == 10);
}

TEST_CASE("a load of one byte is enough for a store to be of use") {
  WasteTrace t;
  const RunId first = t.store8(), second = t.store8();
  const RunId byte = t.insn({0x8a, 0x43, 0x07});  // mov al, [rbx + 7]
  t.at(first, kHeap);
  t.at(byte, kHeap);
  t.at(second, kHeap);
  CHECK(t.rows() == 0);
}

TEST_CASE("a store is dead if one other overwrites all of it") {
  WasteTrace t;
  const RunId low = t.store4(), high = t.store4(), both = t.store8();
  t.at(low, kHeap);
  t.at(high, kHeap + 4);
  t.at(both, kHeap);
  CHECK(t.rows() == 2);

  t.clear();
  t.at(both, kHeap);
  t.at(low, kHeap);
  t.at(high, kHeap + 4);
  CHECK(t.rows() == 0);  // overwritten by two, each of a part
}

TEST_CASE("stores across cells are overwritten as a whole") {
  WasteTrace t;
  const RunId first = t.store8(), second = t.store8();
  t.at(first, kHeap + 5);
  t.at(second, kHeap + 5);
  REQUIRE(t.rows() == 1);
  t.clear();
  t.at(first, kHeap + 5);
  t.at(second, kHeap + 6);
  CHECK(t.rows() == 0);
}

TEST_CASE("an instruction that loads and stores has read what was there") {
  WasteTrace t;
  const RunId store = t.store4(), add = t.insn({0x01, 0x03});  // add [rbx], eax
  t.at(store, kHeap);
  t.at(add, kHeap);
  t.at(store, kHeap);
  const auto& rows = t.waste();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].from.offset == t.offset_of(add));
}

TEST_CASE("what may have read a store makes it unknown, and no waste") {
  WasteTrace t;
  const RunId first = t.store8(), second = t.store8(), load = t.load8();
  const RunId local = t.insn({0x64, 0x48, 0x8b, 0x03});                       // mov rax, fs:[rbx]
  const RunId guard = t.insn({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0});  // mov rax, fs:[0x28]
  const RunId copy = t.insn({0xf3, 0xa4});                                    // rep movsb
  const RunId system_call = t.insn({0x0f, 0x05}, trace::RunExit::syscall);
  t.between(
      first, second, [&] {}, load);
  CHECK(t.rows() == 1);
  t.between(
      first, second, [&] { t.at(guard, 0); }, load);
  CHECK(t.rows() == 1);
  for (const RunId unknown : {local, copy, system_call}) {
    t.between(
        first, second, [&] { t.at(unknown, 0); }, load);
    CHECK(t.rows() == 0);
  }
  t.between(
      first, second, [&] { t.mark(trace::gap(trace::GapReason::native)); }, load);
  CHECK(t.rows() == 0);
}

TEST_CASE("the same bytes loaded again are a repeated load, by the one before") {
  WasteTrace t;
  const RunId first = t.load8(), second = t.load8();
  for (int i = 0; i < 10; i++) {
    t.at(first, kHeap);
    t.at(second, kHeap);
  }
  const auto& rows = t.waste();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].kind == PairKind::redundant_load);
  CHECK(rows[0].from.offset == t.offset_of(first));
  CHECK(rows[0].count == 10);
  CHECK(rows[0].executions == 10);
  CHECK(rows[1].from.offset == t.offset_of(second));
  CHECK(rows[1].count == 9);
}

TEST_CASE("another size, a store to any of the bytes, or to somewhere: no repeated load") {
  WasteTrace t;
  const RunId first = t.load8(), second = t.load8(), narrow = t.load4(), store = t.store1();
  const RunId fill = t.insn({0xf3, 0xaa});  // rep stosb
  t.at(first, kHeap);
  t.at(narrow, kHeap);
  CHECK(t.rows() == 0);
  const auto rows_with = [&](RunId between, uint64_t address) {
    t.clear();
    t.at(first, kHeap + 4);  // of two cells
    t.at(between, address);
    t.at(second, kHeap + 4);
    return t.rows();
  };
  CHECK(rows_with(store, kHeap + 3) == 1);
  CHECK(rows_with(store, kHeap + 4) == 0);
  CHECK(rows_with(store, kHeap + 11) == 0);
  CHECK(rows_with(store, kHeap + 12) == 1);
  CHECK(rows_with(fill, 0) == 0);
}

TEST_CASE("nothing leaks from one sample or thread into the next") {
  WasteTrace t;
  const RunId load = t.load8(), store = t.store8();
  const auto round = [&] {
    t.at(load, kHeap);
    t.at(store, kHeap + 0x100);
  };
  for (uint64_t sample = 1; sample <= 3; sample++) {
    t.mark(trace::sample_start(sample));
    round();
    t.mark(trace::sample_end(trace::EndReason::budget));
  }
  CHECK(t.waste(true).empty());
  t.clear();
  for (int32_t thread = 2; thread <= 40; thread++) {
    t.go_on_with(Tid(thread));
    round();
  }
  CHECK(t.waste().empty());
}

TEST_CASE("each of what the table has room for is a place of its own") {
  WasteTrace t;
  const RunId store = t.store8(), load = t.load8();
  constexpr uint64_t kBytes = uint64_t{collect::WasteThread::kCells} * 8;
  constexpr uint64_t kBegin = kHeap / kBytes * kBytes;
  for (uint64_t i = 0; i < kBytes; i += 8) t.at(store, kBegin + i);
  for (uint64_t i = 0; i < kBytes; i += 8) t.at(load, kBegin + i);
  CHECK(t.waste().empty());
}

TEST_CASE("what the table has no room for is unknown") {
  WasteTrace t;
  const RunId store = t.store8(), load = t.load8();
  constexpr uint64_t kBytes = uint64_t{collect::WasteThread::kCells} * 8 * 2;
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < kBytes; i += 8) t.at(store, kHeap + i);
  t.at(load, kHeap);
  t.at(load, kHeap);
  const auto& rows = t.waste();
  REQUIRE(!rows.empty());
  uint64_t dead = 0, unknown = 0;
  for (const AccessPairRow& row : rows)
    if (row.kind == PairKind::dead_store) {
      dead += row.count;
      unknown = row.unknown;
    }
  CHECK(dead + unknown <= 2 * kBytes / 8);
  CHECK(unknown > kBytes / 8);
  CHECK(rows.back().kind == PairKind::redundant_load);
}

TEST_CASE("a store of what is there already is silent, by what the instruction does") {
  using trace::SlotKind;
  struct Case {
    std::initializer_list<uint8_t> code;
    uint64_t reg, before;
    bool is_silent;
  };
  const uint64_t high = uint64_t{1} << 63;
  for (const Case& c : std::initializer_list<Case>{
           {{0x48, 0x89, 0x03}, high, high, true},  // mov [rbx], rax
           {{0x48, 0x89, 0x03}, high, 0, false},
           {{0x89, 0x03}, high | 7, 7, true},  // mov [rbx], eax
           {{0x89, 0x03}, 7, 8, false},
           {{0x66, 0x89, 0x03}, 0x10007, 7, true},  // mov [rbx], ax
           {{0x88, 0x23}, 0x0700, 7, true},         // mov [rbx], ah
           {{0x88, 0x23}, 7, 7, false},
           {{0x09, 0x03}, 4, 5, true},  // or [rbx], eax
           {{0x09, 0x03}, 2, 5, false},
           {{0x21, 0x03}, 5, 4, true},  // and [rbx], eax
           {{0x21, 0x03}, 3, 4, false},
           {{0x01, 0x03}, high, 9, true},  // add [rbx], eax
           {{0x01, 0x03}, 1, 9, false},
           {{0xc7, 0x03, 0xff, 0xff, 0xff, 0xff}, 0, 0xffffffff, true},  // mov dword [rbx], -1
           {{0xc7, 0x03, 0xff, 0xff, 0xff, 0xff}, 0, 0xffff, false},
       }) {
    WasteTrace t;
    const trace::Slot slots[] = {{SlotKind::base, decoder::kRbx, 0},
                                 {SlotKind::compared, decoder::kRax, 0},
                                 {SlotKind::memory, 0, 0}};
    const RunId store = t.insn(c.code, trace::RunExit::split, slots);
    t.at(store, {kHeap, c.reg, c.before});
    CAPTURE(c.reg);
    CAPTURE(c.before);
    const auto& rows = t.waste();
    REQUIRE(rows.size() == (c.is_silent ? 1 : 0));
    if (!c.is_silent) continue;
    CHECK(rows[0].kind == PairKind::silent_store);
    CHECK(rows[0].count == 1);
    CHECK(rows[0].executions == 1);
    CHECK(rows[0].from_text.empty());
  }
}

TEST_CASE("of a locked store it is not told whether it was silent") {
  WasteTrace t;
  const trace::Slot slots[] = {{trace::SlotKind::base, decoder::kRbx, 0}};
  const RunId store = t.insn({0xf0, 0x09, 0x03}, trace::RunExit::split, slots);  // lock or
  t.at(store, {kHeap});
  CHECK(t.rows() == 0);
}

TEST_CASE("shares of samples have errors") {
  WasteTrace t;
  const RunId first = t.store8(), second = t.store8(), load = t.load8();
  for (uint64_t sample = 1; sample <= 4; sample++) {
    t.mark(trace::sample_start(sample));
    for (uint64_t i = 0; i < 100; i++) {
      t.at(first, kHeap);
      if (i >= 10 * sample) t.at(load, kHeap);
      t.at(second, kHeap);
      t.at(load, kHeap);
    }
    t.mark(trace::sample_end(trace::EndReason::budget));
  }
  for (const AccessPairRow& row : t.waste(true)) {
    if (row.kind != PairKind::dead_store) continue;
    CHECK(row.count == 100);
    CHECK(row.executions == 400);
    // Off by 15, 5, 5 and 15: sqrt(4 / 3 * 500), which four samples tell and not many.
    CHECK(row.error == 42);
  }
}
