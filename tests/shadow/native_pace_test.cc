// SPDX-License-Identifier: MIT
#include "shadow/native_pace.h"

#include <doctest/doctest.h>

#include <array>

namespace shadowprof::shadow {
namespace {

using trace::RunExit;
using trace::Terminator;

// A program of two loops, each with an inner one: their short branches cannot be counted, the long
// ones, which end a round, can.
class TwoLoops {
 public:
  trace::BlockTable table;
  struct Loop {
    RunId inner, round;
    GuestAddr branch;
  };
  ModuleId file = add_file();
  Loop first = add_loop(GuestAddr(0x401000)), second = add_loop(GuestAddr(0x402000));
  static constexpr uint32_t kInner = 50, kRound = 36;  // instructions

  // `rounds` of a loop with so many of its inner one in each.
  void execute(const Loop& loop, unsigned rounds, unsigned inner) {
    for (unsigned i = 0; i < rounds; i++) {
      for (unsigned k = 0; k < inner; k++) words.push_back(loop.inner.value);
      words.push_back(loop.round.value);
    }
  }
  static double instructions(unsigned rounds, unsigned inner) {
    return rounds * (inner * double{kInner} + kRound);
  }
  std::vector<trace::Word> words;

  void end_sample(NativePace& pace) {
    NativePace::Sample sample;
    pace.note(sample, std::exchange(words, {}));
    pace.end(sample);
  }

  ModuleId add_file() {
    trace::Module module;
    module.inode = 1;
    return table.add_module(module);
  }

  // A loop of short instructions and branches alone, but for one in its round.
  Loop add_short_loop(GuestAddr at) {
    const std::array<uint8_t, 8> inner{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x75, 0xf8};
    const std::array<uint8_t, 8> round{0x90, 0xb8, 1, 0, 0, 0, 0xeb, 0xf0};
    return {add_run(at, 2, Terminator::conditional, RunExit::taken, kInner, inner),
            add_run(at + 8, 2, Terminator::jump, RunExit::jump, kRound, round), at + 9};
  }

 private:
  Loop add_loop(GuestAddr at) {
    const std::array<uint8_t, 8> short_one{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x75, 0xf8};
    const std::array<uint8_t, 8> long_one{0x90, 0x90, 0x90, 0xe9, 0, 0, 0, 0};
    const RunId inner = add_run(at, 2, Terminator::conditional, RunExit::taken, kInner, short_one);
    const RunId round = add_run(at + 8, 5, Terminator::jump, RunExit::jump, kRound, long_one);
    return {inner, round, at + 11};
  }
  RunId add_run(GuestAddr at, uint64_t branch_bytes, Terminator terminator, RunExit exit,
                uint32_t insns, std::span<const uint8_t> code) {
    trace::Block block;
    block.start = at;
    block.end = at + code.size();
    block.last_insn = block.end - branch_bytes;
    block.target = GuestAddr(0x400000);
    block.module = file;
    block.terminator = terminator;
    block.insns = static_cast<uint16_t>(insns);
    const BlockId id = table.add_block(block, code);
    trace::Run run;
    run.insns = insns;
    run.exit = exit;
    run.target = block.target;
    return table.add_run(run, {&id, 1}, {});
  }
};

TEST_CASE("passes of a branch say how many instructions there were") {
  TwoLoops program;
  NativePace pace(program.table);
  for (int i = 0; i < 3; i++) {
    program.execute(program.first, 400, 12);
    program.end_sample(pace);
  }
  REQUIRE(pace.places().size() == 1);
  CHECK(pace.places()[0].at == program.first.branch);
  const std::array<uint64_t, 1> passes{5000};
  const auto instructions = pace.instructions(passes);
  REQUIRE(instructions);
  CHECK(*instructions == doctest::Approx(TwoLoops::instructions(5000, 12)).epsilon(0.005));
}

TEST_CASE("code without a counted branch gets one") {
  TwoLoops program;
  NativePace pace(program.table);
  for (int i = 0; i < 4; i++) {
    program.execute(program.first, 1000, 12);
    program.execute(program.second, 400, 40);
    program.end_sample(pace);
  }
  REQUIRE(pace.places().size() == 2);
  CHECK(pace.places()[1].at == program.second.branch);
  const std::array<uint64_t, 2> passes{10'000, 4'000};
  const double truth = TwoLoops::instructions(10'000, 12) + TwoLoops::instructions(4'000, 40);
  const auto instructions = pace.instructions(passes);
  REQUIRE(instructions);
  CHECK(*instructions == doctest::Approx(truth).epsilon(0.02));
}

TEST_CASE("a branch that is added divides what lies between passes of the others") {
  TwoLoops program;
  NativePace pace(program.table);
  const auto in_turns = [&](unsigned times) {
    for (unsigned i = 0; i < times; i++) {
      program.execute(program.first, 1, 12);
      program.execute(program.second, 1, 40);
    }
    program.end_sample(pace);
  };
  in_turns(20'000);
  REQUIRE(pace.places().size() == 1);
  program.execute(program.second, 400, 40);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 2);
  const std::array<uint64_t, 2> passes{5000, 5000};
  const double truth = TwoLoops::instructions(5000, 12) + TwoLoops::instructions(5000, 40);
  // By samples that were taken before, and by later ones.
  for (int i = 0; i < 2; i++) {
    const auto instructions = pace.instructions(passes);
    REQUIRE(instructions);
    CHECK(*instructions == doctest::Approx(truth).epsilon(0.02));
    in_turns(1000);
  }
}

TEST_CASE("where no branch can be counted another instruction is") {
  TwoLoops program;
  const TwoLoops::Loop loop = program.add_short_loop(GuestAddr(0x403000));
  NativePace pace(program.table);
  for (int i = 0; i < 3; i++) {
    program.execute(loop, 400, 12);
    program.end_sample(pace);
  }
  REQUIRE(pace.places().size() == 1);
  const CountedPlace& place = pace.places()[0];
  CHECK(place.at == loop.branch);
  REQUIRE(place.insn);
  CHECK(place.next == place.at + 5);
  CHECK(place.target == place.next);
  const auto instructions = pace.instructions(std::array<uint64_t, 1>{5000});
  REQUIRE(instructions);
  CHECK(*instructions == doctest::Approx(TwoLoops::instructions(5000, 12)).epsilon(0.005));
}

TEST_CASE("samples count by how much their passes are a stretch's") {
  TwoLoops program;
  NativePace pace(program.table);
  const auto phase = [&](unsigned seconds_of_each_first, unsigned inner) {
    for (unsigned i = 0; i < 300; i++) {
      program.execute(program.first, 1, inner);
      program.execute(program.second, seconds_of_each_first, 12);
    }
    program.end_sample(pace);
  };
  program.execute(program.first, 1000, 12);
  program.execute(program.second, 400, 40);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 2);
  for (int i = 0; i < 8; i++) {
    phase(0, 12);
    phase(9, 100);
  }
  const auto of_first = pace.instructions(std::array<uint64_t, 2>{1000, 0});
  const auto of_both = pace.instructions(std::array<uint64_t, 2>{100, 900});
  REQUIRE(of_first);
  REQUIRE(of_both);
  CHECK(*of_first == doctest::Approx(TwoLoops::instructions(1000, 12)).epsilon(0.05));
  const double truth = TwoLoops::instructions(100, 100) + TwoLoops::instructions(900, 12);
  CHECK(*of_both == doctest::Approx(truth).epsilon(0.05));
}

TEST_CASE("passes that only samples of long ago had say nothing") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 1000, 12);
  program.end_sample(pace);
  program.execute(program.second, 400, 40);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 2);
  CHECK(pace.instructions(std::array<uint64_t, 2>{0, 1000}));
  for (int i = 0; i < 48; i++) {
    program.execute(program.first, 1000, 12);
    program.end_sample(pace);
  }
  CHECK(pace.instructions(std::array<uint64_t, 2>{1000, 0}));
  CHECK_FALSE(pace.instructions(std::array<uint64_t, 2>{0, 1000}));
}

TEST_CASE("where most code passes no branch nothing is known") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 1000, 12);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 1);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 20'000; k++) program.words.push_back(program.second.inner.value);
    program.end_sample(pace);
  }
  const std::array<uint64_t, 1> passes{100};
  CHECK_FALSE(pace.instructions(passes));
}

TEST_CASE("passes from before another branch was counted say nothing") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 1000, 12);
  program.execute(program.second, 400, 40);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 2);
  CHECK_FALSE(pace.instructions(std::array<uint64_t, 1>{1000}));
}

TEST_CASE("without a pass nothing is known") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 1000, 12);
  program.end_sample(pace);
  CHECK_FALSE(pace.instructions(std::array<uint64_t, 1>{0}));
}

TEST_CASE("a branch that samples have hardly passed says nothing") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 2000, 12);
  program.execute(program.second, 15, 500);
  program.execute(program.first, 2000, 12);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 2);
  CHECK(pace.instructions(std::array<uint64_t, 2>{1000, 0}));
  CHECK_FALSE(pace.instructions(std::array<uint64_t, 2>{1000, 1000}));
}

TEST_CASE("where branches are passed often the one that is passed least is counted") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 20'000, 1);
  program.end_sample(pace);
  REQUIRE(pace.places().size() == 1);
  const auto instructions = pace.instructions(std::array<uint64_t, 1>{5000});
  REQUIRE(instructions);
  CHECK(*instructions == doctest::Approx(TwoLoops::instructions(5000, 1)).epsilon(0.005));
}

TEST_CASE("what is passed often is better than what is hardly ever passed") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 4, 300);  // 15,000 instructions from one pass to the next
  program.execute(program.second, 20'000, 1);
  program.end_sample(pace);
  REQUIRE(!pace.places().empty());
  CHECK(pace.places()[0].at == program.second.branch);
}

TEST_CASE("branches that are passed all the time are not counted") {
  TwoLoops program;
  NativePace pace(program.table);
  program.execute(program.first, 20'000, 0);
  program.end_sample(pace);
  CHECK(pace.places().empty());
}

}  // namespace
}  // namespace shadowprof::shadow
