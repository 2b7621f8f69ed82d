// SPDX-License-Identifier: MIT
//
// The collector against an interpreter that counts every instruction, edge and call by itself.
#include "collect/edges/edge_collector.h"

#include <doctest/doctest.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "synthetic.h"

namespace shadowprof {
namespace {

using namespace test;

constexpr uint64_t kOffset = 0x1000;  // of the synthetic module's first address

uint64_t address_of(profile::CodeRef at) {
  return at.offset + kBase - kOffset;
}

profile::Profile collect(Engine& engine, const std::vector<trace::Word>& words,
                         size_t chunk_words = ~size_t{0}, bool calls = true) {
  collect::EdgeCollector collector(engine.table, {calls});
  for (size_t at = 0; at < words.size();) {
    size_t end = at;  // a record never spans two chunks
    while (end < words.size() && end - at < chunk_words) {
      const trace::Word head = words[end];
      end += trace::is_special(head) ? trace::special_length(head)
                                     : engine.table.run(RunId(head)).words;
    }
    collector.consume({Tid(7), std::span(words).subspan(at, end - at)});
    at = end;
  }
  profile::Profile profile;
  collector.finish(profile);
  profile.coverage.instructions_total = profile.coverage.instructions_profiled;
  return profile;
}

std::vector<uint64_t> executed_by_instruction(const Program& program,
                                              const profile::Profile& profile) {
  std::vector<uint64_t> executed(program.insns.size(), 0);
  const auto& blocks = profile.tables.blocks;
  for (const auto& b : blocks) {
    const size_t first = program.index_at(address_of(b.at));
    REQUIRE(program.insns[first].address == address_of(b.at));
    for (size_t i = 0; i < b.insns; i++) executed[first + i] += b.count;
  }
  for (const auto& x : profile.tables.interruptions) {
    const auto& b = blocks[x.block];
    const size_t first = program.index_at(address_of(b.at));
    for (size_t i = x.executed; i < b.insns; i++) executed[first + i] -= x.count;
  }
  return executed;
}

// Empty when equal; else the first few differences.
template <typename Map>
std::string differences(const Map& truth, const Map& found) {
  std::string text;
  const auto only_in = [&](const char* what, const Map& a, const Map& b) {
    for (const auto& [key, value] : a) {
      const auto other = b.find(key);
      if (text.size() > 400 || (other != b.end() && other->second == value)) continue;
      text += fmt::format("{} {} {}\n", what, key, value);
    }
  };
  only_in("truth", truth, found);
  only_in("found", found, truth);
  return text;
}

void compare(const Program& program, const Truth& truth, const profile::Profile& profile) {
  CHECK(profile.coverage.instructions_profiled == truth.total);
  CHECK(profile.coverage.attributed == truth.total);
  const Status consistent = check_consistency(profile);
  CHECK_MESSAGE(consistent.has_value(), (consistent ? "" : consistent.error().message));
  CHECK(executed_by_instruction(program, profile) == truth.executed);

  std::map<std::tuple<uint64_t, uint64_t, std::string>, uint64_t> edges;
  for (const auto& e : profile.tables.edges)
    edges[{address_of(e.from), address_of(e.to), to_string(e.kind)}] = e.count;
  CHECK(differences(truth.edges, edges) == "");

  std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, uint64_t>> calls;
  for (const auto& c : profile.tables.calls)
    calls[{address_of(c.site), address_of(c.callee)}] = {c.count, c.inclusive};
  CHECK(differences(truth.calls, calls) == "");
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> entries;
  for (const auto& e : profile.tables.entries)
    entries[address_of(e.at)] = {e.invocations, e.inclusive};
  CHECK(differences(truth.entries, entries) == "");
}

// What distinguishes one profile's block table from another's.
using Rows = std::vector<std::tuple<uint64_t, uint32_t, uint32_t, uint64_t>>;
Rows rows(const profile::Profile& profile, uint64_t before = ~uint64_t{0}) {
  Rows result;
  for (const auto& b : profile.tables.blocks)
    if (address_of(b.at) < before) result.push_back({address_of(b.at), b.size, b.insns, b.count});
  return result;
}

TEST_CASE("blocks, edges and calls of random programs equal an instruction-by-instruction count") {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    CAPTURE(seed);
    const Program program(seed);
    const Execution execution = execute(program, seed, 4000, seed % 3 == 0 ? 0 : 60);
    Engine engine(program, {seed % 2 == 0 ? 64u : 5u, 1 + static_cast<unsigned>(seed % 5),
                            seed % 4 == 0 ? 3u : 0u});
    compare(program, execution.truth,
            collect(engine, engine.trace(execution), 1 + (seed * 37) % 900));
  }
}

TEST_CASE("the block table does not depend on the engine's block and fragment limits") {
  for (uint64_t seed = 100; seed < 130; seed++) {
    CAPTURE(seed);
    const Program program(seed);
    const Execution execution = execute(program, seed, 6000, seed % 2 == 0 ? 0 : 100);
    std::vector<Rows> tables;
    for (const EngineOptions options : {EngineOptions{64, 4, 0}, EngineOptions{3, 1, 0},
                                        EngineOptions{7, 8, 0}, EngineOptions{1, 2, 5}}) {
      Engine engine(program, options);
      tables.push_back(rows(collect(engine, engine.trace(execution))));
    }
    for (const Rows& table : tables)
      CHECK(fmt::format("{}", table) == fmt::format("{}", tables.front()));
  }
}

TEST_CASE("signals that return leave no mark in the counts of what they interrupted") {
  for (uint64_t seed = 200; seed < 230; seed++) {
    CAPTURE(seed);
    const Program program(seed);
    const uint64_t handler = program.insns[program.functions.back()].address;
    std::vector<Rows> tables;
    for (unsigned signal_every : {0u, 40u}) {
      const Execution execution = execute(program, seed, 3000, signal_every);
      Engine engine(program, {64, 4, 0});
      const profile::Profile profile = collect(engine, engine.trace(execution));
      CHECK(!profile.coverage.events.contains("returns_without_call"));
      tables.push_back(rows(profile, handler));
    }
    CHECK(tables[0] == tables[1]);
  }
}

TEST_CASE("without calls the edges are the same") {
  const Program program(7);
  const Execution execution = execute(program, 7, 5000, 80);
  Engine engine(program, {64, 4, 0});
  const auto words = engine.trace(execution);
  const profile::Profile with = collect(engine, words);
  const profile::Profile without = collect(engine, words, 100, false);
  CHECK(rows(with) == rows(without));
  CHECK(without.tables.edges.size() == with.tables.edges.size());
  CHECK(without.tables.calls.empty());
  CHECK(without.coverage.attributed == execution.truth.total);
}

TEST_CASE("a chunk with impossible words is dropped from there on and said so") {
  const Program program(3);
  const Execution execution = execute(program, 3, 1000, 0);
  Engine engine(program, {64, 4, 0});
  const auto good = engine.trace(execution);
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; i++) {
    CAPTURE(i);
    auto words = good;
    words[random() % words.size()] =
        i % 2 == 0 ? static_cast<trace::Word>(random())
                   : static_cast<trace::Word>(engine.table.run_count() + random() % 1000);
    collect::EdgeCollector collector(engine.table);
    collector.consume({Tid(1), words});
    collector.consume({Tid(2), good});
    profile::Profile profile;
    collector.finish(profile);
    profile.coverage.instructions_total = profile.coverage.instructions_profiled;
    CHECK(check_consistency(profile).has_value());
    CHECK(profile.coverage.instructions_profiled >= execution.truth.total);
  }
}

TEST_CASE("threads have stacks of their own") {
  const Program program(11);
  const Execution execution = execute(program, 11, 3000, 0);
  Engine engine(program, {64, 4, 0});
  const auto words = engine.trace(execution);
  collect::EdgeCollector collector(engine.table);
  for (size_t at = 0; at < words.size(); at += 10)
    for (int tid = 1; tid <= 3; tid++)
      collector.consume(
          {Tid(tid), std::span(words).subspan(at, std::min<size_t>(10, words.size() - at))});
  profile::Profile profile;
  collector.finish(profile);
  for (const auto& e : profile.tables.entries) {
    const auto& [invocations, inclusive] = execution.truth.entries.at(address_of(e.at));
    CHECK(e.invocations == 3 * invocations);
    CHECK(e.inclusive == 3 * inclusive);
  }
}

TEST_CASE("each thread has the code that its chunks say") {
  const Program program(12);
  const Execution execution = execute(program, 12, 4000, 0);
  Engine engine(program, {64, 4, 0});
  const auto words = engine.trace(execution);
  collect::EdgeCollector collector(engine.table);
  const size_t half = words.size() / 2;
  for (size_t at = 0; at < words.size(); at += 10) {
    const auto chunk = std::span(words).subspan(at, std::min<size_t>(10, words.size() - at));
    collector.consume({.thread = Tid(1), .words = chunk, .guest = Tid(71)});
    if (at < half) collector.consume({.thread = Tid(2), .words = chunk, .guest = Tid(72)});
  }
  profile::Profile profile;
  collector.finish(profile);
  REQUIRE(profile.threads.size() == 2);
  CHECK(profile.threads[0].tid == 71);
  CHECK(profile.threads[1].tid == 72);
  CHECK(profile.threads[0].instructions == execution.truth.total);
  CHECK(profile.threads[0].instructions + profile.threads[1].instructions ==
        profile.coverage.attributed);
  std::map<profile::CodeRef, uint64_t> by_block;
  for (const auto& row : profile.tables.thread_code) by_block[row.at] += row.instructions;
  uint64_t sum = 0;
  for (const auto& [at, instructions] : by_block) sum += instructions;
  CHECK(sum == profile.coverage.attributed);
  profile.coverage.instructions_total = profile.coverage.instructions_profiled;
  CHECK(profile::check_consistency(profile));
}

TEST_CASE("threads of the program are known in replicas, those of replicas are one") {
  const Program program(12);
  const Execution execution = execute(program, 12, 400, 0);
  Engine engine(program, {64, 4, 0});
  const auto words = engine.trace(execution);
  collect::EdgeCollector collector(engine.table);
  collector.consume({.thread = Tid(71), .words = words});
  collector.consume({.thread = Tid(5), .words = words, .guest = Tid(71)});
  const Tid replicas_own(trace::Chunk::kFirstOfReplica + 1);
  collector.consume({.thread = Tid(6), .words = words, .guest = replicas_own});
  profile::Profile profile;
  collector.finish(profile);
  REQUIRE(profile.threads.size() == 2);
  CHECK(profile.threads[0].tid == 71);
  CHECK(profile.threads[0].instructions == 2 * execution.truth.total);
  CHECK(profile.threads[1].name == "(started in replicas)");
}

}  // namespace
}  // namespace shadowprof
