// SPDX-License-Identifier: MIT
#include "collect/loads/line_sharing.h"

#include <doctest/doctest.h>

#include "collect/loads/hazard_collector.h"
#include "memory_trace.h"

namespace {

using namespace shadowprof;
using collect::kVisitInsns;
using collect::Moments;
using profile::SharingKind;
using profile::SharingTable;
using test::kHeap;

// Buffers of several threads, in the order in which they came.
struct SharingTrace : test::MemoryTrace {
  explicit SharingTrace(Moments how = Moments::buffers) : moments(how) {}

  Moments moments;
  struct Buffer {
    trace::Chunk chunk;
    std::vector<trace::Word> words;
  };
  std::vector<Buffer> buffers;

  void buffer(int thread, int process = 1, uint64_t until = 0) {
    buffers.push_back({{Tid(thread), {}, Tid(process), until}, std::move(words)});
    words.clear();
  }
  // The accesses of so many visits.
  void visit(RunId run, uint64_t address, uint64_t visits = 1) {
    for (uint64_t i = 0; i < visits * kVisitInsns; i++) at(run, address);
  }
  profile::Profile collected(bool sampled = false) {
    const auto collector =
        collect::make_hazard_collector(table, {.sampled = sampled, .moments = moments});
    for (Buffer& b : buffers) {
      b.chunk.words = b.words;
      collector->consume(b.chunk);
    }
    profile::Profile p;
    collector->finish(p);
    return p;
  }
  SharingTable sharing(bool sampled = false) { return collected(sampled).tables.sharing; }
};

}  // namespace

TEST_CASE("two threads that write bytes of one line share it falsely") {
  SharingTrace t;
  const RunId left = t.store8(), right = t.store4();
  t.visit(left, kHeap, 10);
  t.buffer(1);
  t.visit(right, kHeap + 56, 8);
  t.buffer(2);
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == SharingKind::false_sharing);
  CHECK(rows[0].from.offset == t.offset_of(left));
  CHECK(rows[0].to.offset == t.offset_of(right));
  CHECK(rows[0].count == 2 * 8);
  CHECK(rows[0].stretches == 1);
  CHECK(rows[0].lines == 1);
  CHECK(rows[0].from_executions == 10 * kVisitInsns);
  CHECK(rows[0].to_executions == 8 * kVisitInsns);
  CHECK(rows[0].line.at.offset == kHeap);
  CHECK(rows[0].line_count == 16);
  CHECK(rows[0].from_bytes == 0xff);
  CHECK(rows[0].to_bytes == uint64_t{0xf} << 56);
}

TEST_CASE("bytes that both access are shared truly, and the place of the writer is first") {
  SharingTrace t;
  const RunId load = t.load8(), store = t.store1();
  t.visit(load, kHeap, 3);
  t.buffer(1);
  t.visit(store, kHeap + 7, 5);
  t.buffer(2);
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == SharingKind::true_sharing);
  CHECK(rows[0].from.offset == t.offset_of(store));
  CHECK(rows[0].to.offset == t.offset_of(load));
  CHECK(rows[0].count == 6);
}

TEST_CASE("other lines, loads alone, one thread, another process: nothing is shared") {
  const auto rows_of = [](uint64_t second_address, bool second_stores, int thread, int process) {
    SharingTrace t;
    const RunId load = t.load8(), store = t.store8();
    t.visit(second_stores ? store : load, kHeap);
    t.buffer(1);
    t.visit(second_stores ? store : load, second_address);
    t.buffer(thread, process);
    return t.sharing().size();
  };
  CHECK(rows_of(kHeap + 8, true, 2, 1) == 1);
  CHECK(rows_of(kHeap + 64, true, 2, 1) == 0);
  CHECK(rows_of(kHeap + 8, false, 2, 1) == 0);
  CHECK(rows_of(kHeap + 8, true, 1, 1) == 0);
  CHECK(rows_of(kHeap + 8, true, 2, 9) == 0);
}

TEST_CASE("an access across lines is one to both") {
  SharingTrace t;
  const RunId wide = t.store8(), before = t.store1(), behind = t.store1();
  t.visit(wide, kHeap + 60);
  t.buffer(1);
  t.at(before, kHeap + 63);
  t.at(behind, kHeap + 68);
  t.buffer(2);
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].kind == SharingKind::false_sharing);
  CHECK(rows[0].from_bytes == 0xf);
  CHECK(rows[1].kind == SharingKind::true_sharing);
  CHECK(rows[1].from_bytes == uint64_t{0xf} << 60);
}

TEST_CASE("what was shared counts once, whichever buffers come first") {
  SharingTrace t;
  const RunId left = t.store8(), right = t.store8();
  for (int i = 0; i < 4; i++) {
    t.visit(left, kHeap);
    t.buffer(1);
  }
  for (int i = 0; i < 3; i++) {
    t.visit(right, kHeap + 8);
    t.buffer(2);
  }
  t.visit(left, kHeap, 9);
  t.buffer(1);
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 2 * 3);
}

TEST_CASE("what one thread did before the other began is not shared") {
  SharingTrace t;
  const RunId store = t.store8(), load = t.load8();
  t.visit(load, kHeap + 0x1000);
  t.buffer(2);
  t.visit(store, kHeap, 5);
  t.buffer(1);
  t.visit(load, kHeap + 0x1000);
  t.buffer(2);  // here the first thread's buffer is there
  t.visit(load, kHeap, 5);
  t.buffer(2);
  CHECK(t.sharing().empty());
}

TEST_CASE("time stamps around system calls tell stretches apart within buffers") {
  for (const bool at_once : {false, true}) {
    SharingTrace t(Moments::recorded);
    const RunId store = t.store8(), load = t.load8();
    const RunId calls = t.moment(1), comes_back = t.moment(0);
    t.visit(store, kHeap, 5);
    t.at(calls, 100);
    t.at(comes_back, at_once ? 150 : 200);
    t.visit(load, kHeap + 0x1000);
    t.buffer(1, 1, 300);
    t.at(comes_back, at_once ? 50 : 101);
    t.visit(load, kHeap, 5);
    t.buffer(2, 1, 300);
    CHECK(t.sharing().size() == (at_once ? 1 : 0));
  }
}

TEST_CASE("samples of different threads are of one stretch if they are near one another") {
  for (const uint64_t second : {7u, 11u, 12u}) {
    SharingTrace t(Moments::samples);
    const RunId store = t.store8();
    t.mark(trace::sample_start(7));
    t.visit(store, kHeap, 4);
    t.buffer(1);
    t.mark(trace::sample_start(second));
    t.visit(store, kHeap, 4);
    t.buffer(2);
    CHECK(t.sharing(true).size() == (second < 12 ? 1 : 0));
    for (auto& buffer : t.buffers) buffer.chunk.guest = Tid(100);  // of two replicas
    CHECK(t.sharing(true).empty());
  }
}

TEST_CASE("one pair of instructions both ways counts no more than the line can have gone") {
  SharingTrace t;
  const RunId load = t.load8(), store = t.store8();
  for (int thread = 1; thread <= 2; thread++) {
    for (uint64_t i = 0; i < 5 * kVisitInsns; i += 2) {
      t.at(load, kHeap);
      t.at(store, kHeap);
    }
    t.buffer(thread);
  }
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 2);  // load and store, store and store
  for (const auto& row : rows) CHECK(row.count == 10);
}

TEST_CASE("a line that is visited often stays while others pass") {
  SharingTrace t;
  const RunId left = t.store8(), right = t.store8(), load = t.load8();
  constexpr uint64_t kSpan = collect::SharedLines::kPlaces * profile::kCacheLineBytes;
  t.visit(left, kHeap, 20);
  for (uint64_t i = 0; i < kSpan; i += 64) t.at(load, kHeap + kSpan + i);
  t.buffer(1);
  t.visit(right, kHeap + 8, 20);
  t.buffer(2);
  const SharingTable rows = t.sharing();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].count == 40);
}

TEST_CASE("a fifth instruction of a line is counted as lost") {
  SharingTrace t;
  for (int i = 0; i < 5; i++) t.at(t.store8(), kHeap);  // of one visit each
  t.buffer(1);
  CHECK(t.collected().coverage.events.at("sharing_crowded_lines") == 1);
}
