// SPDX-License-Identifier: MIT
#include "collect/streams/stream_collector.h"

#include <doctest/doctest.h>

#include <random>

#include "collect/streams/stream_rows.h"
#include "collect/table_builder.h"
#include "memory_trace.h"

namespace {

using namespace shadowprof;
using profile::StreamOrder;
using profile::StreamTable;
using test::kHeap;

constexpr uint64_t kStreamLine = 64;
constexpr uint64_t kRounds = 500;

struct StreamTrace : test::MemoryTrace {
  // Lines in no order, each far from the others.
  static uint64_t scattered(uint64_t i) { return kHeap + (i * i * 7919 % 100'003) * kStreamLine; }

  void walk(RunId run, uint64_t nodes, uint64_t first = 0) {
    for (uint64_t i = 0; i < nodes; i++) at(run, scattered(first + i));
  }
  profile::Profile streams(bool sampled = false) {
    return collect(collect::make_stream_collector, sampled);
  }
};

}  // namespace

TEST_CASE("a list that is walked over and over is one stream, wherever a burst begins") {
  StreamTrace t;
  const RunId load = t.load8();
  for (int sample = 0; sample < 3; sample++) {
    t.mark(trace::sample_start(sample));
    for (uint64_t i = 0; i < kRounds * 40; i++)
      t.at(load, StreamTrace::scattered((i + sample) % 40));
    t.mark(trace::sample_end(trace::EndReason::budget));
  }
  const profile::Profile p = t.streams(true);
  REQUIRE(p.tables.streams.size() == 1);
  const profile::StreamRow& row = p.tables.streams[0];
  CHECK(row.streams == 1);
  CHECK(row.is_cycle);
  CHECK(row.references.size() == 40);
  CHECK(row.heat == row.occurrences * 40);
  CHECK(row.heat > 3 * kRounds * 40 * 95 / 100);
  CHECK(row.line_accesses <= 3 * kRounds * 40);
  CHECK(row.error < row.heat / 100);  // each sample said the same
  REQUIRE(row.insns.size() == 1);
  CHECK(row.insns[0].offset == t.offset_of(load));
  CHECK(row.texts[0] == "mov rax, [rbx]");
  CHECK(p.coverage.streams.references == 3 * kRounds * 40);
  CHECK(p.coverage.streams.bursts == 3);
  const profile::StreamShape shape = profile::shape_of(row);
  CHECK(shape.order == StreamOrder::scattered);
  CHECK(shape.lines == 40);
}

TEST_CASE("streams of one set of instructions are one row, which shows the hottest") {
  StreamTrace t;
  const RunId load = t.load8(), other = t.load4();
  std::mt19937 random(3);
  for (uint64_t i = 0; i < kRounds; i++) {
    if (random() % 4 == 0)
      t.walk(load, 20, 1000);
    else
      t.walk(load, 30);
    t.at(other, StreamTrace::scattered(5000 + i));
  }
  const StreamTable rows = t.streams().tables.streams;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].streams == 2);
  CHECK(rows[0].references.size() == 30);
  CHECK(rows[0].hottest_heat < rows[0].heat);
}

TEST_CASE("what repeats the reference before counts once") {
  StreamTrace t;
  const RunId load = t.load8();
  for (uint64_t i = 0; i < kRounds * 8; i++)
    for (uint64_t k = 0; k < 8; k++) t.at(load, StreamTrace::scattered(i % 10) + 8 * k);
  const profile::Profile p = t.streams();
  CHECK(p.coverage.streams.references == kRounds * 8);
  REQUIRE(p.tables.streams.size() == 1);
  CHECK(p.tables.streams[0].references.size() == 10);
}

TEST_CASE("a sweep and a random walk have no streams") {
  StreamTrace sweep, walk;
  const RunId load = sweep.load8(), other = walk.load8();
  std::mt19937 random(3);
  for (uint64_t i = 0; i < 200'000; i++) {
    sweep.at(load, kHeap + i * kStreamLine);
    walk.at(other, kHeap + random() % (1 << 18) * kStreamLine);
  }
  const profile::Profile p = sweep.streams();
  CHECK(p.tables.streams.empty());
  // Its grammar is full before it has kMostReferences.
  CHECK(p.coverage.streams.references ==
        p.coverage.streams.bursts * collect::StreamLimits::kMostSymbols);
  CHECK(p.coverage.streams.references + p.coverage.streams.skipped == 200'000);
  CHECK(walk.streams().tables.streams.empty());
}

TEST_CASE("one in eight references is in a burst in the long run") {
  constexpr uint64_t kAll = 20'000'000, kChunk = 400'000;
  StreamTrace t;
  const RunId load = t.load8();
  for (uint64_t i = 0; i < kChunk; i++) t.at(load, StreamTrace::scattered(i % 40));
  const auto collector = collect::make_stream_collector(t.table, {});
  for (uint64_t i = 0; i < kAll; i += kChunk) collector->consume({Tid(1), t.words});
  profile::Profile p;
  collector->finish(p);
  const profile::StreamCounts& counts = p.coverage.streams;
  CHECK(counts.references + counts.skipped == kAll);
  CHECK(counts.references > kAll / 12);
  CHECK(counts.references < kAll / 5);
}

TEST_CASE("the stack is left out, but for what is far from its pointer") {
  StreamTrace t;
  const RunId load = t.load8();
  const RunId spill = t.insn({0x48, 0x89, 0x04, 0x24}, trace::RunExit::split, decoder::kRsp);
  constexpr uint64_t kStack = 0x7ffc'0000'8000;
  for (uint64_t i = 0; i < kRounds; i++) {
    t.at(spill, kStack - i % 7 * kStreamLine);  // calls are nested by so much
    t.at(load, kStack + 64);
    for (uint64_t k = 0; k < 10; k++) t.at(load, StreamTrace::scattered(k));
    t.at(load, kStack + 8192);
  }
  const profile::Profile p = t.streams();
  CHECK(p.coverage.streams.stack == 2 * kRounds);
  CHECK(p.coverage.streams.references == 11 * kRounds);
  REQUIRE(p.tables.streams.size() == 1);
  CHECK(p.tables.streams[0].references.size() == 11);
}

TEST_CASE("how lines are gone through") {
  const auto shape_of_lines = [](std::initializer_list<int64_t> lines) {
    profile::StreamRow row;
    for (const int64_t line : lines) row.references.push_back({0, line});
    return profile::shape_of(row);
  };
  CHECK(shape_of_lines({0, 1, 2, 3}).order == StreamOrder::contiguous);
  CHECK(shape_of_lines({3, 2, 1, 0}).order == StreamOrder::contiguous);
  CHECK(shape_of_lines({0, 100, 1, 101, 2, 102}).order == StreamOrder::contiguous);
  CHECK(shape_of_lines({0, 100, 0, 100}).order == StreamOrder::scattered);
  CHECK(shape_of_lines({0}).order == StreamOrder::contiguous);
  const profile::StreamShape strided = shape_of_lines({0, -7, -14, -21, -28});
  CHECK(strided.order == StreamOrder::strided);
  CHECK(strided.stride == -7);
  CHECK(strided.lines == 5);
  CHECK(strided.span == 29);
}

TEST_CASE("a row shows a stream, also where there is no room to remember its streams") {
  StreamTrace t;
  collect::AccessPlans plans(t.table);
  const auto stream_of = [&](RunId run, uint64_t line) {
    const uint32_t site = plans.accesses(*plans.run(run))[0].site;
    return collect::HotStream{
        {collect::stream_terminal(site, line), collect::stream_terminal(site, line + 1)}, 1};
  };
  const RunId load = t.load8(), late = t.load4();
  std::vector<collect::HotStream> hot;
  for (uint64_t i = 0; i < collect::StreamRows::kMostStreams; i++)
    hot.push_back(stream_of(load, 2 * i));
  hot.push_back(stream_of(late, 100));
  collect::StreamRows rows;
  rows.add_burst(plans, collect::Sequitur(1), {}, hot, 2 * hot.size());
  profile::Profile p;
  rows.finish(plans, collect::TableBuilder(t.table, p), false, p.tables.streams);
  REQUIRE(p.tables.streams.size() == 2);
  CHECK(p.tables.streams[0].streams == collect::StreamRows::kMostStreams);
  CHECK(p.tables.streams[1].insns[0].offset == t.offset_of(late));
  CHECK(p.tables.streams[1].references.size() == 2);
}
