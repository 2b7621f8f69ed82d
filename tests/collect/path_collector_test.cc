// SPDX-License-Identifier: MIT
//
// Paths of made-up programs (synthetic.h) and of streams of known composition.
#include "collect/paths/path_collector.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "collect/paths/path_counts.h"
#include "profile/random.h"
#include "synthetic.h"

namespace {

using namespace shadowprof;
using trace::Word;

using Paths = std::map<std::vector<uint64_t>, std::pair<uint64_t, uint64_t>>;  // count, insns

struct PathResult {
  Paths paths;
  profile::PathCounts counts;
};

size_t record_length(const trace::BlockTable& table, Word first) {
  if (trace::is_special(first)) return std::max<size_t>(1, trace::special_length(first));
  return first < table.run_count() ? std::max<size_t>(1, table.run(RunId(first)).words) : 1;
}

// In chunks of at most that many words, or as many more as a record has; 0: each sample is one.
PathResult collect_paths(const trace::BlockTable& table,
                         const std::vector<std::vector<Word>>& samples,
                         collect::PathCollectorOptions options, size_t most_words = 0) {
  collect::PathCollector collector(table, options);
  profile::Random random(samples.size());
  for (const std::vector<Word>& words : samples) {
    const Word start[] = {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0};
    collector.consume({Tid(1), start});
    // A record never spans two chunks, but chunks may end anywhere.
    std::span<const Word> rest(words);
    while (!rest.empty()) {
      const size_t wanted = most_words != 0 ? 1 + random.next() % most_words : rest.size();
      size_t length = 0;
      while (length < wanted && length < rest.size()) length += record_length(table, rest[length]);
      const std::span<const Word> chunk = rest.first(std::min(length, rest.size()));
      collector.consume({Tid(1), chunk});
      rest = rest.subspan(chunk.size());
    }
  }
  profile::Profile p;
  collector.finish(p);
  PathResult result;
  result.counts = p.coverage.paths;
  for (const profile::PathRow& row : p.tables.paths) {
    std::vector<uint64_t> blocks;
    for (const profile::CodeRef b : row.blocks) blocks.push_back(b.offset);
    result.paths[blocks] = {row.count, row.insns};
  }
  return result;
}

PathResult paths_of(const test::Program& program, const test::Execution& execution,
                    test::EngineOptions engine_options, collect::PathCollectorOptions options) {
  test::Engine engine(program, engine_options);
  const std::vector<Word> words = engine.trace(execution);
  return collect_paths(engine.table, {words}, options);
}

}  // namespace

TEST_CASE("paths do not depend on how an engine cuts code into blocks and fragments") {
  size_t seen = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    const test::Program program(seed);
    const test::Execution execution = test::execute(program, seed, 20'000, seed % 2 ? 300 : 0);
    for (const auto scope : {collect::PathScope::interprocedural, collect::PathScope::intra}) {
      const collect::PathCollectorOptions options{scope, true};
      const PathResult whole = paths_of(program, execution, {64, 4, 0}, options);
      seen += whole.paths.size();
      for (const test::EngineOptions cut :
           {test::EngineOptions{3, 1, 0}, {64, 1, 0}, {5, 3, 2}, {1, 2, 3}}) {
        const PathResult other = paths_of(program, execution, cut, options);
        INFO("seed " << seed << " blocks of " << cut.max_block_insns << " fragments of "
                     << cut.max_fragment_blocks << " intra "
                     << (scope == collect::PathScope::intra));
        CHECK(other.paths == whole.paths);
        CHECK(other.counts.executions == whole.counts.executions);
      }
    }
  }
  CHECK(seen > 300);
}

TEST_CASE("paths that are learned are counted as others are") {
  size_t seen = 0;
  uint64_t pruned = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    const test::Program program(seed);
    const test::Execution execution = test::execute(program, seed, 300'000, seed % 2 ? 3000 : 0);
    const unsigned extra_words = seed % 3 == 0 ? 3 : 0;
    test::Engine engine(program, {64, static_cast<unsigned>(1 + seed % 4), extra_words});
    const std::vector<Word> words = engine.trace(execution);
    for (const size_t capacity : {size_t{32} << 20, size_t{500}}) {
      collect::PathCollectorOptions options{.whole_threads = true, .capacity_words = capacity};
      const PathResult learned = collect_paths(engine.table, {words}, options, 3000);
      options.learn = false;
      const PathResult each = collect_paths(engine.table, {words}, options, 3000);
      INFO("seed " << seed << " capacity " << capacity);
      CHECK(learned.counts.executions == each.counts.executions);
      CHECK(learned.counts.dropped == each.counts.dropped);
      seen += learned.paths.size();
      if (each.counts.pruned == 0) {
        CHECK(learned.paths == each.paths);
        continue;
      }
      uint64_t counted = 0;
      for (const auto& [blocks, count] : learned.paths) counted += count.first;
      CHECK(counted + learned.counts.pruned == learned.counts.executions);
      pruned += learned.counts.pruned;
    }
  }
  CHECK(seen > 300);
  CHECK(pruned > 100);
}

TEST_CASE("where a sample begins does not change its paths, but that the first is dropped") {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    const test::Program program(seed);
    const test::Execution execution = test::execute(program, seed, 20'000, 0);
    test::Engine engine(program, {64, 4, 0});
    const std::vector<Word> words = engine.trace(execution);
    const PathResult whole = collect_paths(engine.table, {words}, {});
    uint64_t before = ~0ull;
    for (const size_t from : {size_t{0}, words.size() / 7, words.size() / 3, words.size() / 2}) {
      const std::vector<Word> rest(words.begin() + static_cast<ptrdiff_t>(from), words.end());
      const PathResult part = collect_paths(engine.table, {rest}, {});
      CHECK(part.counts.executions <= before);
      before = part.counts.executions;
      for (const auto& [blocks, count] : part.paths) {
        INFO("seed " << seed << " from word " << from);
        REQUIRE(whole.paths.contains(blocks));
        CHECK(count.first <= whole.paths.at(blocks).first);
      }
    }
  }
}

TEST_CASE("samples are streams of their own") {
  const test::Program program(3);
  const test::Execution execution = test::execute(program, 3, 20'000, 0);
  test::Engine engine(program, {64, 4, 0});
  const std::vector<Word> words = engine.trace(execution);
  const PathResult once = collect_paths(engine.table, {words}, {});
  const PathResult twice = collect_paths(engine.table, {words, words}, {});
  CHECK(twice.counts.executions == 2 * once.counts.executions);
  CHECK(twice.counts.dropped == 2 * once.counts.dropped);
  REQUIRE(once.paths.size() == twice.paths.size());
  for (const auto& [blocks, count] : once.paths)
    CHECK(twice.paths.at(blocks).first == 2 * count.first);
}

TEST_CASE("words that are no trace are counted and do no harm") {
  const test::Program program(4);
  test::Engine engine(program, {64, 4, 3});
  std::vector<Word> words = engine.trace(test::execute(program, 4, 2'000, 0));
  profile::Random random(4);
  for (int i = 0; i < 300; i++) {
    std::vector<Word> bad = words;
    bad[random.next() % bad.size()] = static_cast<Word>(random.next());
    collect_paths(engine.table, {bad}, {});
  }
}

TEST_CASE("pruning never loses a path above the error bound, and counts what it loses") {
  for (const size_t capacity : {size_t{2'000}, size_t{12'000}}) {
    collect::PathCounts counts(capacity);
    std::map<uint32_t, uint64_t> truth;
    profile::Random random(capacity);
    constexpr uint64_t kEvents = 200'000;
    for (uint64_t i = 0; i < kEvents; i++) {
      const auto last = static_cast<uint32_t>(std::pow(20'000.0, random.unit()));
      const uint32_t list[] = {0, last % 7, last};
      const uint64_t hash = last * 0x9E3779B97F4A7C15ull;
      if (!counts.count(hash, 0)) counts.add(hash, list, 0);
      truth[last]++;
      if (counts.full()) counts.prune();
    }
    CHECK(counts.executions() == kEvents);
    CHECK(counts.words_used() < capacity);
    CHECK(counts.error_bound() > 0);
    CHECK(counts.error_bound() < kEvents / (capacity / collect::PathCounts::kEntryWords) * 8);
    uint64_t counted = 0;
    std::map<uint32_t, uint64_t> kept;
    counts.for_each([&](const collect::PathCounts::Path& path) {
      counted += path.count;
      REQUIRE(path.list.size() == 3);
      CHECK(path.list[1] == path.list[2] % 7);
      kept[path.list[2]] = path.count;
    });
    CHECK(counted + counts.pruned() == kEvents);
    for (const auto& [last, count] : truth) {
      if (!kept.contains(last)) {
        CHECK(count <= counts.error_bound());
      } else {
        CHECK(kept[last] <= count);
        CHECK(count - kept[last] <= counts.error_bound());
      }
    }
  }
}
