// SPDX-License-Identifier: MIT
#include "trace/special_record.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shadowprof::trace {
namespace {

struct Told {
  std::vector<std::string> what;
  uint64_t number = 0;

  void operator()(const SampleStart& start) {
    what.push_back("start");
    number = start.number();
  }
  void operator()(const SampleEnd& end) { what.push_back(to_string(end.reason)); }
  void operator()(GapReason reason) { what.push_back(to_string(reason)); }
};

size_t take(std::span<const Word> words, Told& told) {
  return take_special(words, [&](const auto& what) { told(what); });
}

TEST_CASE("special records are told, and what follows them is not touched") {
  std::vector<Word> words;
  const auto add = [&](const auto& record) {
    words.insert(words.end(), record.begin(), record.end());
  };
  add(sample_start(uint64_t{7} << 32 | 5));
  add(gap(GapReason::native));
  add(sample_end(EndReason::pauses));
  Told told;
  std::span<const Word> left(words);
  for (int i = 0; i < 3; i++) left = left.subspan(take(left, told));
  CHECK(left.empty());
  CHECK(told.what == std::vector<std::string>{"start", "native", "pauses"});
  CHECK(told.number == (uint64_t{7} << 32 | 5));
}

TEST_CASE("a record that says nothing known, or is cut, is corrupt, and nothing is told") {
  const std::vector<std::vector<Word>> corrupt = {
      {special_word(SpecialKind::gap, 0)},
      {special_word(SpecialKind::gap, 1)},
      {special_word(SpecialKind::gap, 2), 0},
      {special_word(SpecialKind::gap, 2), 99},
      {special_word(SpecialKind::gap, 3), 1},
      {special_word(SpecialKind::sample_end, 1)},
      {special_word(static_cast<SpecialKind>(9), 1)},
  };
  for (const auto& words : corrupt) {
    Told told;
    CHECK(take(words, told) == 0);
    CHECK(told.what.empty());
  }
}

TEST_CASE("a sample's end is one observation's, but where it pauses") {
  CHECK(SampleEnd{EndReason::budget}.ends_observation());
  CHECK_FALSE(SampleEnd{EndReason::pauses}.ends_observation());
}

TEST_CASE("a sample starts with the callers that it tells, the innermost first") {
  const std::vector<Word> none = {special_word(SpecialKind::sample_start, 3), 1, 0};
  CHECK_FALSE(SampleStart(none).tells_stack());
  CHECK(SampleStart(none).callers() == 0);
  const std::vector<Word> words = {
      special_word(SpecialKind::sample_start, 8), 1, 0, StackStart::kWhole, 20, 1, 10, 1u << 31};
  const SampleStart start(words);
  CHECK(start.tells_stack());
  CHECK(start.is_whole());
  REQUIRE(start.callers() == 2);
  CHECK(start.caller(0).address == (uint64_t{1} << 32 | 20));
  CHECK_FALSE(start.caller(0).is_exact);
  CHECK(start.caller(1).address == 10);
  CHECK(start.caller(1).is_exact);
  const std::vector<Word> short_one = {special_word(SpecialKind::sample_start, 1)};
  CHECK(SampleStart(short_one).number() == 0);
}

}  // namespace
}  // namespace shadowprof::trace
