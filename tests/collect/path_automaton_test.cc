// SPDX-License-Identifier: MIT
//
// Runs 1, 2 and so on, and paths of them. path_collector_test.cc compares what it counts.
#include "collect/paths/path_automaton.h"

#include <doctest/doctest.h>

#include <map>

#include "collect/paths/site_stack.h"
#include "profile/random.h"

namespace {

using namespace shadowprof;
using collect::PathAutomaton;
using collect::PathCode;
using collect::PathRuns;
using collect::SiteStack;
using collect::Step;
using trace::Word;

constexpr uint32_t kMany = 2000;

// A program of which any run can follow any other; how each ends is given.
struct Runs {
  PathRuns all;
  Runs() {
    for (uint32_t id = 1; id <= kMany; id++) add(id, Step::plain);
  }
  void add(uint32_t id, Step step, uint32_t site = 0) {
    all[id] = {.start = 16 * id, .mix = 0, .site = site, .words = 1, .blocks = 1, .step = step,
               .joins = 0, .steps = 1};
  }
};

struct Followed {
  size_t words;
  PathAutomaton::Node node;
};

Followed follow(PathAutomaton& automaton, PathAutomaton::Node node, std::vector<Word> words,
                SiteStack& sites) {
  const size_t size = words.size();
  words.resize(size + PathCode::kMostWords, ~Word{0});
  uint32_t* next = sites.open(size);
  const Word* reached = automaton.follow(node, words.data(), words.data() + size, next);
  sites.close(next);
  return {static_cast<size_t>(reached - words.data()), node};
}

std::map<uint64_t, uint64_t> counts_of(PathAutomaton& automaton) {
  std::map<uint64_t, uint64_t> counts;
  automaton.take_counts(
      [&](uint64_t hash, uint64_t count, PathAutomaton::Node) { counts[hash] += count; });
  return counts;
}

}  // namespace

TEST_CASE("an automaton follows what it has learned, and counts it") {
  Runs runs;
  runs.add(3, Step::back_edge);
  runs.add(4, Step::back_edge);
  PathAutomaton automaton(runs.all);
  REQUIRE(automaton.works());
  CHECK(!automaton.begin(0, 1));
  automaton.learn(0, std::vector<uint32_t>{1, 2, 3}, 123);
  automaton.learn(0, std::vector<uint32_t>{1, 4}, 14);
  REQUIRE(automaton.begin(0, 1));
  CHECK(!automaton.begin(0, 2));
  CHECK(!automaton.begin(48, 1));
  SiteStack sites;
  // 2 begins no path that is known, but what it ends is.
  const Followed there =
      follow(automaton, *automaton.begin(0, 1), {1, 2, 3, 1, 4, 1, 2, 3, 2, 9}, sites);
  CHECK(there.words == 9);
  CHECK(automaton.prefix(there.node).list == std::vector<uint32_t>{2});
  CHECK(counts_of(automaton) == std::map<uint64_t, uint64_t>{{123, 2}, {14, 1}});
  CHECK(counts_of(automaton).empty());
  automaton.forget();
  CHECK(!automaton.begin(0, 1));
}

TEST_CASE("an automaton knows what a path has called, and from where") {
  Runs runs;
  runs.add(1, Step::call, 71);
  runs.add(2, Step::call, 72);
  runs.add(3, Step::ret);
  PathAutomaton automaton(runs.all);
  REQUIRE(automaton.works());
  automaton.learn(0, std::vector<uint32_t>{1, 2, 3, 3}, 1233);
  automaton.learn(0, std::vector<uint32_t>{1, 2, 3, 3, 3}, 12333);
  automaton.learn(32, std::vector<uint32_t>{2}, 2);
  SiteStack sites;
  sites.push(5);
  Followed there = follow(automaton, *automaton.begin(0, 1), {1, 2, 3}, sites);
  CHECK(there.words == 3);
  CHECK(automaton.prefix(there.node).callees == std::vector<uint64_t>{32, 48});
  CHECK(sites.at(0) == 72);
  CHECK(sites.at(1) == 71);
  // Back from both, and from the frame in which the path began.
  there = follow(automaton, there.node, {3, 3}, sites);
  CHECK(automaton.prefix(there.node).callees.empty());
  CHECK(sites.at(0) == 5);
  there = follow(automaton, there.node, {1}, sites);
  CHECK(counts_of(automaton) == std::map<uint64_t, uint64_t>{{12333, 1}});
  CHECK(sites.at(0) == 0);
  // Run 2 calls the function that it is in: a path that it ends, if that is known.
  CHECK(follow(automaton, there.node, {2, 2}, sites).words == 1);
  automaton.learn(0, std::vector<uint32_t>{1, 2}, 12);
  there = follow(automaton, there.node, {2, 2}, sites);
  CHECK(there.words == 2);
  CHECK(automaton.prefix(there.node).entered == 32);
  there = follow(automaton, there.node, {2, 2}, sites);
  CHECK(there.words == 2);
  CHECK(automaton.prefix(there.node).entered == 32);
  CHECK(counts_of(automaton) == std::map<uint64_t, uint64_t>{{12, 1}, {2, 2}});
}

TEST_CASE("any number of runs may follow one") {
  Runs runs;
  runs.add(1, Step::back_edge);
  PathAutomaton automaton(runs.all);
  REQUIRE(automaton.works());
  automaton.learn(0, std::vector<uint32_t>{1}, 1);
  for (uint32_t id = 2; id <= kMany; id++) {
    runs.add(id, Step::back_edge);
    automaton.learn(0, std::vector<uint32_t>{id}, id);
  }
  profile::Random random(3);
  std::vector<Word> words;
  std::map<uint64_t, uint64_t> counts;
  for (int i = 0; i < 50'000; i++) {
    words.push_back(1);
    words.push_back(static_cast<Word>(2 + random.next() % (kMany - 1)));
    counts[1]++;
    counts[words.back()]++;
  }
  words.push_back(1);
  SiteStack sites;
  CHECK(follow(automaton, *automaton.begin(0, 1), words, sites).words == words.size());
  CHECK(counts_of(automaton) == counts);
}

TEST_CASE("paths of more than 128 blocks are not the automaton's") {
  Runs runs;
  PathAutomaton automaton(runs.all);
  REQUIRE(automaton.works());
  std::vector<uint32_t> list;
  for (uint32_t id = 1; id <= 129; id++) list.push_back(id);
  automaton.learn(0, list, 7);
  SiteStack sites;
  CHECK(follow(automaton, *automaton.begin(0, 1), list, sites).words == 128);
  runs.all[5].step = Step::same;
  runs.all[5].joins = 1;
  automaton.forget();
  automaton.learn(0, list, 7);
  CHECK(follow(automaton, *automaton.begin(0, 1), list, sites).words == 129);
}

TEST_CASE("sites of frames that were never entered are unknown") {
  SiteStack sites;
  sites.pop();
  CHECK(sites.at(0) == 0);
  sites.push(7);
  CHECK(sites.at(0) == 7);
  CHECK(sites.at(1) == 0);
  uint32_t* next = sites.open(3);
  next -= 3;
  sites.close(next);
  CHECK(sites.at(0) == 0);
  for (uint32_t i = 1; i < 1'000'000; i++) sites.push(i);
  CHECK(sites.at(0) == 999'999);
  CHECK(sites.at(100) == 999'899);
}
