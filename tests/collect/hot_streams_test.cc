// SPDX-License-Identifier: MIT
#include "collect/streams/hot_streams.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using namespace shadowprof;
using collect::HotStream;
using collect::HotStreams;
using collect::Sequitur;

constexpr uint32_t kSymbols = 32'768;
constexpr uint64_t kLength = 30'000;
constexpr uint64_t kHot = kLength / 100;

struct FoundStream {
  std::vector<HotStream> streams;  // the longest first
  uint64_t longer = 0;
};

template <typename Next>
FoundStream streams_of(Next next) {
  Sequitur grammar(kSymbols);
  for (uint64_t i = 0; i < kLength; i++) grammar.append(next(i));
  HotStreams finder;
  FoundStream found{finder.find(grammar, kHot), finder.longer()};
  std::ranges::sort(found.streams, std::ranges::greater(),
                    [](const HotStream& s) { return s.references.size(); });
  return found;
}

uint64_t heat_of(const std::vector<HotStream>& streams) {
  uint64_t heat = 0;
  for (const HotStream& stream : streams) heat += stream.heat();
  return heat;
}

}  // namespace

TEST_CASE("a cycle of at most 100 references is one stream") {
  for (const uint64_t length : {2u, 3u, 40u, 64u, 99u, 100u}) {
    CAPTURE(length);
    const FoundStream found = streams_of([&](uint64_t i) { return i % length; });
    REQUIRE(found.streams.size() == 1);
    CHECK(found.streams[0].references.size() == length);
    CHECK(found.streams[0].is_cycle);
    CHECK(found.streams[0].heat() > kLength * 95 / 100);
    CHECK(found.streams[0].heat() <= kLength);
  }
}

TEST_CASE("what recurs within longer sequences only is no stream, and counted") {
  const FoundStream found = streams_of([](uint64_t i) { return i % 150; });
  CHECK(found.streams.empty());
  CHECK(found.longer > kLength * 95 / 100);
  CHECK(found.longer <= kLength);
}

TEST_CASE("sequences that follow one another by chance are streams of their own") {
  std::mt19937 random(5);
  bool second = false;
  uint64_t at = 0;
  const FoundStream found = streams_of([&](uint64_t) {
    if (at == (second ? 45u : 30u)) {
      at = 0;
      second = random() % 2 != 0;
    }
    return (second ? 1000 : 0) + at++;
  });
  REQUIRE(found.streams.size() == 2);
  CHECK(found.streams[0].references.size() == 45);
  CHECK(found.streams[1].references.size() == 30);
  CHECK(heat_of(found.streams) > kLength * 95 / 100);
}

TEST_CASE("what is in a hot stream is not hot by that") {
  // Twice the same pair in each round, with others between.
  const uint64_t round[] = {1, 2, 3, 4, 1, 2, 5, 6, 7};
  const FoundStream found = streams_of([&](uint64_t i) { return round[i % std::size(round)]; });
  REQUIRE(found.streams.size() == 1);
  CHECK(found.streams[0].references.size() == std::size(round));
}

TEST_CASE("where nothing recurs, or nothing often enough, there is no stream") {
  CHECK(streams_of([](uint64_t i) { return i; }).streams.empty());
  std::mt19937 random(3);
  CHECK(streams_of([&](uint64_t) { return random(); }).streams.empty());
  // Pairs that recur, but each of them a few times.
  uint64_t first = 0;
  const FoundStream rare = streams_of([&](uint64_t i) {
    if (i % 2 == 0) first = random() % 5'000;
    return i % 2 == 0 ? first : 10'000 + first;
  });
  CHECK(rare.streams.empty());
  CHECK(rare.longer == 0);
}

TEST_CASE("no reference belongs to two streams") {
  std::mt19937 random(11);
  for (int round = 0; round < 20; round++) {
    const uint64_t letters = 2 + random() % 12;
    const FoundStream found = streams_of(
        [&](uint64_t i) { return random() % 4 == 0 ? random() % letters : i % letters; });
    CHECK(heat_of(found.streams) + found.longer <= kLength);
    for (const HotStream& stream : found.streams) CHECK(stream.heat() >= kHot);
  }
}
