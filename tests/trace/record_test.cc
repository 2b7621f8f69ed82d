// SPDX-License-Identifier: MIT
//
// The reader against hostile words: whatever a trace holds, it is read within its bounds, and a
// corrupt record is an error that names its offset.
#include "trace/record.h"

#include <doctest/doctest.h>

#include <array>

namespace shadowprof::trace {
namespace {

// Run 0 has one word, run 1 has five.
struct Table {
  Table() {
    const std::array<BlockId, 1> block{table.add_block({})};
    const std::array<Slot, 2> slots{{{SlotKind::value, 0, 0}, {SlotKind::value, 1, 0}}};
    table.add_run({}, block, {});
    table.add_run({}, block, slots);
  }
  BlockTable table;
};

struct Outcome {
  size_t records = 0;
  std::string error;
};

Outcome read_all(const BlockTable& table, std::span<const Word> words) {
  Outcome outcome;
  Reader reader(table, words);
  for (;;) {
    const auto next = reader.next();
    if (!next) {
      outcome.error = next.error().message;
      const auto again = reader.next();
      CHECK(again.has_value());
      CHECK(!again->has_value());
      return outcome;
    }
    if (!*next) return outcome;
    outcome.records++;
    const Record& r = **next;
    CHECK(r.words.data() == words.data() + r.offset);
    CHECK(r.offset + r.words.size() <= words.size());
    CHECK(!r.words.empty());
    CHECK(outcome.records <= words.size());
  }
}

TEST_CASE("records of both kinds, slots of both halves") {
  const Table t;
  const std::array<Word, 8> words{0,
                                  1,
                                  0x55667788,
                                  0x11223344,
                                  2,
                                  3,
                                  special_word(SpecialKind::gap, 2),
                                  static_cast<Word>(GapReason::signal_delivered)};
  Reader reader(t.table, words);
  auto record = reader.next();
  REQUIRE((record && *record));
  CHECK((*record)->run() == RunId(0));
  record = reader.next();
  REQUIRE((record && *record));
  CHECK((*record)->run() == RunId(1));
  CHECK((*record)->offset == 1);
  CHECK((*record)->slot(0) == 0x1122334455667788);
  CHECK((*record)->slot(1) == 0x300000002);
  record = reader.next();
  REQUIRE((record && *record));
  CHECK((*record)->special());
  CHECK((*record)->kind() == SpecialKind::gap);
  record = reader.next();
  REQUIRE(record);
  CHECK(!*record);
}

TEST_CASE("an empty trace ends at once") {
  const Table t;
  CHECK(read_all(t.table, {}).records == 0);
}

TEST_CASE("a run that is not in the table") {
  const Table t;
  for (const Word w : {Word{2}, Word{0x7fffffff}}) {
    const std::array<Word, 2> words{0, w};
    const Outcome outcome = read_all(t.table, words);
    CHECK(outcome.records == 1);
    CHECK(outcome.error.find("word 1") != std::string::npos);
  }
}

TEST_CASE("a record that does not fit its chunk") {
  const Table t;
  const std::array<Word, 4> run{1, 0, 0, 0};
  CHECK(read_all(t.table, run).error.find("word 0") != std::string::npos);
  const std::array<Word, 3> special{0, special_word(SpecialKind::gap, 3), 0};
  CHECK(read_all(t.table, special).error.find("word 1") != std::string::npos);
  const std::array<Word, 1> longest{special_word(SpecialKind::gap, 0xffff)};
  CHECK(!read_all(t.table, longest).error.empty());
}

TEST_CASE("special records without length or of no known kind") {
  const Table t;
  const std::array<Word, 1> no_length{special_word(SpecialKind::gap, 0)};
  CHECK(!read_all(t.table, no_length).error.empty());
  for (const Word kind : {0u, 5u, 0xffu}) {
    const std::array<Word, 1> unknown{kSpecialBit | 1u << 8 | kind};
    CHECK(!read_all(t.table, unknown).error.empty());
  }
}

TEST_CASE("random words are records or an error, never more than there is") {
  const Table t;
  uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<Word>(state >> 33);
  };
  for (int round = 0; round < 20'000; round++) {
    std::vector<Word> words(next() % 24);
    for (Word& w : words) {
      switch (next() % 4) {
        case 0:
          w = next() % 3;
          break;
        case 1:
          w = special_word(static_cast<SpecialKind>(next() % 7), next() % 8);
          break;
        case 2:
          w = next();
          break;
        default:
          w = kSpecialBit | next();
          break;
      }
    }
    read_all(t.table, words);
  }
}

}  // namespace
}  // namespace shadowprof::trace
