// SPDX-License-Identifier: MIT
#include "collect/loads/line_code.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "profile/random.h"

namespace {

using namespace shadowprof;
using collect::kOneLoad;
using collect::kOneStore;
using collect::LineAccess;
using collect::LineCode;
using collect::LineCounts;
using trace::Word;

struct TestRun {
  uint32_t words;
  std::vector<LineAccess> accesses;
};

// Runs with a few registers each, and accesses near and far from what they hold.
TestRun some_run(profile::Random& random) {
  TestRun run{static_cast<uint32_t>(1 + 2 * (1 + random.next() % 5)), {}};
  const auto some_word = [&] {
    return static_cast<uint16_t>(1 + 2 * (random.next() % ((run.words - 1) / 2)));
  };
  for (uint64_t i = random.next() % 7; i != 0; i--) {
    const uint64_t distances[] = {0, 8, 72, 130, 4000, 5000, -uint64_t{40}, 0x12'3456'7890};
    const uint64_t what[] = {kOneLoad, kOneStore, 3 * kOneLoad, kOneLoad + kOneStore,
                             200 * kOneLoad};
    const uint8_t scales[] = {0, 0, 0, 1, 2, 4, 8, 3, 7};
    run.accesses.push_back({distances[random.next() % 8], what[random.next() % 5], some_word(),
                            some_word(), scales[random.next() % 9]});
    if (run.accesses.back().index_scale == 0)
      run.accesses.back().index_word = run.accesses.back().base_word;
  }
  std::ranges::sort(run.accesses, {}, &LineAccess::place);
  return run;
}

// Records of runs 1 to `runs.size()`, whose registers hold addresses of some pages, and where each
// record begins.
struct Records {
  std::vector<Word> words;
  std::vector<size_t> starts;
};

Records some_records(const std::vector<TestRun>& runs, size_t count, uint64_t pages,
                     profile::Random& random) {
  Records records;
  for (size_t i = 0; i < count; i++) {
    const auto id = static_cast<Word>(1 + random.next() % runs.size());
    records.starts.push_back(records.words.size());
    records.words.push_back(id);
    for (uint32_t w = 1; w < runs[id - 1].words; w += 2) {
      const uint64_t value = 0x7f00'0000'0000 + random.next() % pages * 4096 + random.next() % 4096;
      records.words.push_back(static_cast<Word>(value));
      records.words.push_back(static_cast<Word>(value >> 32));
    }
  }
  return records;
}

std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> all_of(LineCounts& counts) {
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> lines;
  for (const LineCounts::Line& l : counts.hottest(1'000'000))
    lines.emplace_back(l.line, l.loads, l.stores);
  std::ranges::sort(lines);
  return lines;
}

}  // namespace

TEST_CASE("code counts what the table counts, also while pages are forgotten") {
  for (const size_t capacity : {size_t{1} << 16, size_t{32}}) {
    profile::Random random(11);
    std::vector<TestRun> runs;
    for (int i = 0; i < 60; i++) runs.push_back(some_run(random));
    const Records records = some_records(runs, 20'000, 100, random);

    LineCounts by_code(capacity);
    LineCounts by_table(capacity);
    LineCode code(by_code);
    std::vector<uint64_t> executions(runs.size());
    for (size_t i = 0; i < runs.size(); i++) {
      REQUIRE(code.add(RunId(static_cast<uint32_t>(i + 1)), runs[i].words, runs[i].accesses,
                       static_cast<uint32_t>(i), i % 2 == 0 ? &executions[i] : nullptr));
    }
    std::vector<uint64_t> truth(runs.size());
    uint64_t known = 0;
    for (const size_t at : records.starts) {
      const size_t run = records.words[at] - 1;
      truth[run] += run % 2 == 0 ? 1 : 0;
      known += run;
      for (const LineAccess& a : runs[run].accesses)
        by_table.add(a.address(&records.words[at]), a.what);
    }
    const Word* const end = records.words.data() + records.words.size();
    const LineCode::Progress progress = code.count(records.words.data(), end);
    CHECK(progress.at == end);
    CHECK(progress.accesses == known);
    CHECK(executions == truth);
    CHECK(by_code.accesses() == by_table.accesses());
    CHECK(by_code.pruned() == by_table.pruned());
    CHECK(all_of(by_code) == all_of(by_table));
    CHECK((by_table.pruned() != 0) == (capacity == 32));
  }
}

TEST_CASE("code stops at what has none, and at the limit") {
  LineCounts lines;
  LineCode code(lines);
  REQUIRE(code.add(RunId(5), 3, {}, 1, nullptr));
  const Word special = trace::special_word(trace::SpecialKind::gap, 2);
  for (const Word other : {Word{6}, Word{0}, Word{limits::kMaxRuns}, special, ~Word{0}}) {
    const std::vector<Word> words = {5, 0, 0, 5, 0, 0, other, 0, 0, 5, 0, 0};
    CHECK(code.count(words.data(), words.data() + words.size()).at == words.data() + 6);
    CHECK(code.count(words.data(), words.data() + 1).at == words.data() + 3);
    CHECK(code.count(words.data(), words.data() + 4).accesses == 2);
    CHECK(code.count(words.data(), words.data()).at == words.data());
  }
}

TEST_CASE("a run whose code does not fit has none") {
  LineCounts lines;
  LineCode code(lines, 4096);
  const std::vector<LineAccess> accesses(4, {0, kOneLoad, 1, 1, 0});
  uint32_t added = 0;
  while (code.add(RunId(added + 1), 3, accesses, 4, nullptr)) added++;
  CHECK(added > 2);
  const std::vector<Word> words = {added, 64, 0, added + 1, 64, 0};
  CHECK(code.count(words.data(), words.data() + words.size()).at == words.data() + 3);
  CHECK(lines.accesses() == 4);
}
