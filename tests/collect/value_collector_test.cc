// SPDX-License-Identifier: MIT
//
// Values of made-up records: one block of a load and a conditional branch, captured by a slot.
#include "collect/values/value_collector.h"

#include <doctest/doctest.h>

#include <bit>

#include "made_up.h"

namespace {

using namespace shadowprof;
using trace::Word;

struct ValueLoop {
  trace::BlockTable table;
  BlockId block = test::add_load_loop(table);
  RunId run = translate(true);  // captures

  RunId translate(bool captures) {
    const trace::Slot slot{trace::SlotKind::value, 0, 0};
    return test::add_translation(table, block, {&slot, captures ? size_t{1} : size_t{0}});
  }
  void add(std::vector<Word>& words, uint64_t value) const {
    words.insert(words.end(),
                 {run.value, static_cast<Word>(value), static_cast<Word>(value >> 32)});
  }
};

profile::ValueFigures figures_of(const ValueLoop& loop,
                                 const std::vector<std::vector<Word>>& chunks,
                                 collect::ValueCollectorOptions options = {}) {
  collect::ValueCollector collector(loop.table, options);
  for (const auto& words : chunks) collector.consume({Tid(1), words});
  profile::Profile p;
  collector.finish(p);
  REQUIRE(p.tables.values.size() == 1);
  CHECK(p.tables.values[0].at.offset == 0x100);
  CHECK(p.tables.values[0].text.starts_with("mov rax"));
  return p.tables.values[0].figures;
}

// One instruction and a ret; its slot has `values`, one after the other.
profile::ValueRow row_of(std::initializer_list<uint8_t> insn, trace::Slot slot,
                         std::initializer_list<uint64_t> values) {
  std::vector<uint8_t> code(insn);
  code.push_back(0xc3);
  trace::BlockTable table;
  trace::Block block;
  block.module = table.add_module(test::one_page_module());
  block.start = GuestAddr(0x1100);
  block.last_insn = block.start + insn.size();
  block.end = block.start + code.size();
  block.insns = 2;
  block.terminator = trace::Terminator::ret;
  const BlockId id = table.add_block(block, code);
  trace::Run r;
  r.insns = r.last_block_insns = 2;
  r.exit = trace::RunExit::ret;
  r.captures = true;
  const RunId run = table.add_run(r, {&id, 1}, {&slot, 1});
  std::vector<Word> words;
  for (const uint64_t v : values)
    words.insert(words.end(), {run.value, static_cast<Word>(v), static_cast<Word>(v >> 32)});
  collect::ValueCollector collector(table, {});
  collector.consume({Tid(1), words});
  profile::Profile p;
  collector.finish(p);
  REQUIRE(p.tables.values.size() == 1);
  CHECK(p.tables.arguments.empty());
  return p.tables.values[0];
}

// Four executions are enough, and one of ten is captured then.
collect::ValueCollectorOptions told_by(trace::RunMailbox& mailbox) {
  collect::ValueCollectorOptions options;
  options.condition = {4, 1, 10};
  options.seen_enough = &mailbox;
  return options;
}

}  // namespace

TEST_CASE("of a vector register the first element counts, with its type") {
  using profile::ValueType;
  const trace::Slot xmm1{trace::SlotKind::vector, 1, 0};
  const uint64_t two = std::bit_cast<uint64_t>(2.0);
  const uint64_t half = std::bit_cast<uint32_t>(0.5f);
  constexpr uint64_t kBeside = 0xabcd'0000'0000'0000;

  // addsd xmm1, xmm2
  const profile::ValueRow f64 = row_of({0xf2, 0x0f, 0x58, 0xca}, xmm1, {two, two, 0});
  CHECK(f64.type == ValueType::f64);
  CHECK(f64.elements == 0);
  CHECK(f64.figures.zero == 1);
  CHECK(f64.figures.top[0].value == two);
  CHECK(profile::value_text(f64.type, f64.figures.top[0].value) == "2.0");

  // addps xmm1, xmm2
  const profile::ValueRow f32 = row_of({0x0f, 0x58, 0xca}, xmm1, {kBeside | half, half});
  CHECK(f32.type == ValueType::f32);
  CHECK(f32.bits == 32);
  CHECK(f32.elements == 4);
  CHECK(f32.figures.top[0].value == half);
  CHECK(f32.figures.top[0].count == 2);

  // paddw xmm1, xmm2
  const profile::ValueRow words = row_of({0x66, 0x0f, 0xfd, 0xca}, xmm1, {kBeside | 7, 8, 9});
  CHECK(words.type == ValueType::integer);
  CHECK(words.bits == 16);
  CHECK(words.elements == 8);
  CHECK(words.figures.distinct == 3);
  CHECK(words.figures.strided == 1);

  // kandq k1, k2, k3
  const profile::ValueRow mask =
      row_of({0xc4, 0xe1, 0xec, 0x41, 0xcb}, {trace::SlotKind::mask, 1, 0}, {kBeside, kBeside});
  CHECK(mask.bits == 64);
  CHECK(mask.elements == 0);
  CHECK(mask.figures.top[0].value == kBeside);
}

TEST_CASE("a stream's figures are what they are by hand") {
  const ValueLoop loop;
  std::vector<Word> words;
  // Differences: 0 0 5 5 5 0 -15; equal to the one before them: the 2nd, 4th and 5th.
  for (const uint64_t v : {0, 0, 0, 5, 10, 15, 15, 0}) loop.add(words, v);
  const profile::ValueFigures f = figures_of(loop, {words});
  CHECK(f.count == 8);
  CHECK(f.zero == 4);
  CHECK(f.same == 3);
  CHECK(f.strided == 3);
  CHECK(f.distinct == 4);
  REQUIRE(f.top.size() == 4);
  CHECK(f.top[0].value == 0);
  CHECK(f.top[0].count == 4);
  CHECK(f.top[1].value == 15);
}

TEST_CASE("no prediction is made from one sample to the next") {
  const ValueLoop loop;
  std::vector<Word> words;
  for (int sample = 0; sample < 3; sample++) {
    words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0});
    for (int i = 0; i < 4; i++) loop.add(words, 7);
  }
  const profile::ValueFigures f = figures_of(loop, {words});
  CHECK(f.count == 12);
  CHECK(f.same == 9);
  CHECK(f.strided == 6);
  CHECK(f.invariance() == 1);
}

TEST_CASE("windows give the shares of the whole, and all executions count") {
  const ValueLoop loop;
  collect::ValueCollectorOptions options;
  options.condition = {100, 50, 1000};
  std::vector<std::vector<Word>> chunks;
  profile::Random random(9);
  constexpr uint64_t kChunks = 40, kRecords = 10'000;
  // 70 % are 1, the rest 2 to 9; what comes first is different, and does not weigh more for it.
  for (uint64_t c = 0; c < kChunks; c++) {
    chunks.emplace_back();
    for (uint64_t i = 0; i < kRecords; i++)
      loop.add(chunks.back(), c == 0 && i < 100        ? 50
                              : random.next() % 10 < 7 ? 1
                                                       : 2 + random.next() % 8);
  }
  const profile::ValueFigures f = figures_of(loop, chunks, options);
  CHECK(f.count == kChunks * kRecords);
  CHECK(f.top[0].value == 1);
  // 400 windows of 50: standard error of the share about 0.3 %.
  CHECK(f.invariance() == doctest::Approx(0.7).epsilon(0.03));
  CHECK(f.distinct == 10);
}

TEST_CASE("what has been seen enough of is told, and counts by how often it is captured then") {
  ValueLoop loop;
  const RunId plain = loop.translate(false);
  trace::RunMailbox mailbox;
  collect::ValueCollectorOptions options = told_by(mailbox);
  std::vector<Word> words;
  for (int i = 0; i < 4; i++) loop.add(words, 1);
  for (int i = 0; i < 50; i++) loop.add(words, 2);  // the engine has not heard yet
  for (int i = 0; i < 43; i++) words.push_back(plain.value);
  std::vector<Word> window;  // now and then
  for (int i = 0; i < 40; i++) loop.add(window, 3);
  const profile::ValueFigures f = figures_of(loop, {words, window, window}, options);
  const auto told = mailbox.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].run == loop.run);
  CHECK(told[0].keep_records);
  CHECK(f.count == 177);
  REQUIRE(f.top.size() == 2);
  CHECK(f.top[0].value == 3);
  // What was seen at first is all that there was then; what was seen later stands for the rest.
  CHECK(f.top[0].count == 173);
  CHECK(f.top[1].value == 1);
  CHECK(f.top[1].count == 4);
  CHECK(f.estimated);
  // Two windows tell little of others.
  CHECK(profile::critical_value(f.samples) * static_cast<double>(f.top_error) > 20);

  // A later translation is new code.
  loop.run = loop.translate(true);
  for (int i = 0; i < 4; i++) loop.add(words, 1);
  (void)figures_of(loop, {words}, options);
  CHECK(mailbox.take().size() == 2);
}

TEST_CASE("the interpreter captures all that brief samples execute") {
  ValueLoop loop;
  const RunId interpreted = loop.translate(true);
  trace::RunMailbox mailbox;
  collect::ValueCollectorOptions options = told_by(mailbox);
  std::vector<Word> words;
  for (int i = 0; i < 4; i++) loop.add(words, 1);
  const RunId plain = loop.translate(false);
  for (int i = 0; i < 6; i++) words.push_back(plain.value);
  for (const Word word : trace::sample_start(trace::kBriefSample | 1)) words.push_back(word);
  loop.run = interpreted;
  for (int i = 0; i < 90; i++) loop.add(words, 2);
  const profile::ValueFigures f = figures_of(loop, {words}, options);
  CHECK(f.count == 100);
  REQUIRE(f.top.size() == 2);
  CHECK(f.top[0].value == 2);
  CHECK(f.top[0].count >= 90);
  CHECK(mailbox.take().size() == 1);  // and nothing of it is new to the engine
}

TEST_CASE("the error of what windows have seen comes from how they differ") {
  ValueLoop loop;
  const RunId plain = loop.translate(false);
  trace::RunMailbox mailbox;
  std::vector<uint64_t> executions(loop.table.run_count());
  executions[plain.value] = 10'000;
  executions[loop.run.value] = 4 + 8 * 100;
  collect::ValueCollectorOptions options = told_by(mailbox);
  options.executions = &executions;
  mailbox.answer({plain, 1});
  std::vector<std::vector<Word>> chunks(9);
  for (int i = 0; i < 4; i++) loop.add(chunks[0], 1);
  // Shares of 0.75 and 0.85 in turn: the standard error of their mean is about 0.02. Eight windows
  // that agree may have missed a phase of 7.5 %, which makes it 0.03.
  for (int c = 1; c <= 8; c++)
    for (int i = 0; i < 100; i++) loop.add(chunks[c], i < (c % 2 == 0 ? 75 : 85) ? 7 : 8);
  const profile::ValueFigures f = figures_of(loop, chunks, options);
  CHECK(f.count == 10'804);
  CHECK(f.estimated);
  CHECK(f.samples == 8);
  CHECK(f.top[0].value == 7);
  CHECK(f.invariance() == doctest::Approx(0.8).epsilon(0.001));
  CHECK(f.top_error >= 200);
  CHECK(f.top_error < 400);
  CHECK(f.distinct == 3);
}

TEST_CASE("what was looked at in full is exact") {
  const ValueLoop loop;
  collect::ValueCollectorOptions options;
  options.condition.every = options.condition.burst;
  std::vector<Word> words;
  for (int i = 0; i < 20'000; i++) loop.add(words, i % 16);
  profile::ValueFigures f = figures_of(loop, {words}, options);
  CHECK(!f.estimated);
  CHECK(f.top_error == 0);
  for (int i = 0; i < 100; i++) loop.add(words, 1000 + i);
  f = figures_of(loop, {words}, options);
  CHECK(f.estimated);  // the hotlist does not hold them all
  CHECK(f.distinct_error > 0);
}

TEST_CASE("a condition may change while a trace is read") {
  const ValueLoop loop;
  collect::ConditionChange change;
  collect::ValueCollectorOptions options;
  options.condition = {100, 1, 1};
  options.change = &change;
  collect::ValueCollector collector(loop.table, options);
  const auto read = [&](uint64_t value) {
    for (int chunk = 0; chunk < 20; chunk++) {
      std::vector<Word> words;
      for (int i = 0; i < 5000; i++) loop.add(words, value);
      collector.consume({Tid(1), words});
    }
  };
  read(1);
  change.set({.burst = 50, .every = 1000});
  read(2);
  change.set({.burst = 1, .every = 1});
  read(3);
  profile::Profile p;
  collector.finish(p);
  REQUIRE(p.tables.values.size() == 1);
  const profile::ValueFigures& f = p.tables.values[0].figures;
  CHECK(f.count == 300'000);
  CHECK(f.estimated);
  // What was looked at in full counts as it is; what windows saw, for all that was not.
  for (const profile::ValueCount& value : f.top)
    CHECK(static_cast<double>(value.count) == doctest::Approx(100'000).epsilon(0.02));
  CHECK(f.top.size() == 3);
}

TEST_CASE("while all is wanted no code has been seen enough of") {
  ValueLoop loop;
  trace::RunMailbox mailbox;
  mailbox.want_all(true);
  collect::ValueCollectorOptions options = told_by(mailbox);
  std::vector<Word> words;
  for (int i = 0; i < 50; i++) loop.add(words, 1);
  CHECK(!figures_of(loop, {words}, options).estimated);
  CHECK(mailbox.take().empty());
  mailbox.want_all(false);
  CHECK(figures_of(loop, {words}, options).count == 50);
  CHECK(mailbox.take().size() == 1);
}

TEST_CASE("distinct values are estimated for what was not looked at") {
  ValueLoop loop;
  const RunId plain = loop.translate(false);
  trace::RunMailbox mailbox;
  std::vector<uint64_t> executions(loop.table.run_count());
  executions[plain.value] = 1'000'000;
  collect::ValueCollectorOptions options = told_by(mailbox);
  options.executions = &executions;
  const auto distinct = [&](auto value) {
    mailbox.answer({plain, 1});
    std::vector<std::vector<Word>> chunks(11);
    for (int i = 0; i < 4; i++) loop.add(chunks[0], 0);
    for (int c = 1; c <= 10; c++)
      for (int i = 0; i < 1000; i++) loop.add(chunks[c], value(c, i));
    return figures_of(loop, chunks, options);
  };
  const auto within = [](const profile::ValueFigures& f, double truth) {
    return std::abs(static_cast<double>(f.distinct) - truth) <=
           4 * static_cast<double>(f.distinct_error);
  };
  CHECK(
      within(distinct([](int c, int i) { return 50'000 * c + i; }), 1e6));  // another one each time
  CHECK(within(distinct([](int, int i) { return i % 200; }), 200));
  CHECK(distinct([](int, int i) { return i % 3; }).distinct == 4 - 1);
}

TEST_CASE("what is not recorded counts by the engine's counters") {
  ValueLoop loop;
  const RunId plain = loop.translate(false);
  trace::RunMailbox mailbox;
  std::vector<uint64_t> executions(loop.table.run_count());
  collect::ValueCollectorOptions options = told_by(mailbox);
  options.executions = &executions;
  std::vector<Word> before, late, window;
  for (int i = 0; i < 4; i++) loop.add(before, 1);
  for (int i = 0; i < 50; i++) loop.add(late, 2);  // was full before the engine answered
  for (int i = 0; i < 40; i++) loop.add(window, 3);
  executions[loop.run.value] = 134;
  executions[plain.value] = 43;
  mailbox.answer({plain, 2});
  const profile::ValueFigures f = figures_of(loop, {before, late, window, window}, options);
  const auto told = mailbox.take();
  REQUIRE(told.size() == 1);
  CHECK(!told[0].keep_records);
  CHECK(f.count == 177);
  REQUIRE(f.top.size() == 2);
  CHECK(f.top[0].value == 3);
  CHECK(f.top[0].count == 173);
}

TEST_CASE("records that are cut off or unknown end their chunk and are counted") {
  const ValueLoop loop;
  std::vector<Word> words;
  loop.add(words, 1);
  words.push_back(loop.run.value);
  collect::ValueCollector collector(loop.table);
  collector.consume({Tid(1), words});
  const Word unknown[] = {12345};
  collector.consume({Tid(1), unknown});
  profile::Profile p;
  collector.finish(p);
  CHECK(p.coverage.events["corrupt_value_chunks"] == 2);
  CHECK(p.tables.values[0].figures.count == 1);
}

TEST_CASE("the error of a share comes from how it differs between samples") {
  const ValueLoop loop;
  collect::ValueCollectorOptions options;
  options.condition.every = options.condition.burst;
  options.errors = true;
  const auto sampled = [&](std::initializer_list<int> sevens) {
    std::vector<Word> words;
    for (const int n : sevens) {
      words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0});
      for (int i = 0; i < 100; i++) loop.add(words, i < n ? 7 : 8);
      words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_end, 2), 5});
    }
    return figures_of(loop, {words}, options);
  };
  // Shares 0.8, 0.9, 0.7, 0.8: the ratio estimator's error of the sum is sqrt(4 / 3 * 200) = 16.3,
  // and 19.1 with the sample that differs most, by 10, once more.
  const profile::ValueFigures f = sampled({80, 90, 70, 80});
  CHECK(f.invariance() == 0.8);
  CHECK(f.samples == 4);
  CHECK(f.top_error >= 19);
  CHECK(f.top_error <= 20);
  CHECK(sampled({80, 80, 80, 80}).top_error <= 9);  // as if each value were an observation
  CHECK(sampled({80}).samples == 0);
  // Another value becomes the hottest. Residuals are 83.3 and, five times, 16.7: sqrt(6 / 5 * 8333)
  // = 100, with 83.3 once more 130.
  const profile::ValueFigures late = sampled({100, 0, 0, 0, 0, 0});
  CHECK(late.samples == 6);
  CHECK(late.top_error >= 129);
  CHECK(late.top_error <= 132);
}

TEST_CASE("one value only is known by the number of samples, however little most of them have") {
  const ValueLoop loop;
  collect::ValueCollectorOptions options;
  options.condition.every = options.condition.burst;
  options.errors = true;
  const auto sampled = [&](int samples, uint64_t last) {
    std::vector<Word> words;
    for (int s = 0; s < samples; s++) {
      words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_start, 3), 1, 0});
      for (int i = 0; i < (s == 0 ? 100'000 : 1); i++) loop.add(words, s + 1 < samples ? 7 : last);
      words.insert(words.end(), {trace::special_word(trace::SpecialKind::sample_end, 2), 5});
    }
    return figures_of(loop, {words}, options);
  };
  const profile::ValueFigures f = sampled(60, 7);
  CHECK(f.samples == 60);
  const double half = profile::critical_value(f.samples) * static_cast<double>(f.top_error) /
                      static_cast<double>(f.count);
  CHECK(half == doctest::Approx(0.05).epsilon(0.01));  // 3 / 60
  CHECK(sampled(60, 8).samples == 0);  // that the one large sample is like others is not known
  CHECK(sampled(1, 7).samples == 0);
}

TEST_CASE("each sample of a replica that lasts is an observation") {
  const ValueLoop loop;
  collect::ValueCollectorOptions options;
  options.condition.every = options.condition.burst;
  options.errors = true;
  std::vector<Word> words;
  const auto sample = [&](Word number, int sevens) {
    words.insert(words.end(),
                 {trace::special_word(trace::SpecialKind::sample_start, 3), number, 0});
    for (int i = 0; i < 50; i++) loop.add(words, i < sevens ? 7 : 8);
    const auto end = trace::sample_end(trace::EndReason::pauses);
    words.insert(words.end(), end.begin(), end.end());
  };
  // Each number twice: what follows at once is one observation.
  const std::array<int, 4> sevens{40, 45, 35, 40};
  for (Word number = 1; number <= 4; number++) {
    sample(number, sevens[number - 1]);
    sample(number, sevens[number - 1]);
  }
  const profile::ValueFigures f = figures_of(loop, {words}, options);
  CHECK(f.count == 400);
  CHECK(f.invariance() == 0.8);
  CHECK(f.samples == 4);
  CHECK(f.top_error >= 19);  // as of four samples that end
  CHECK(f.top_error <= 20);
}

TEST_CASE("what a division divides by is a value of its own") {
  // div qword ptr [rbx]; div ch.
  const trace::Slot memory{trace::SlotKind::memory, 0, 0};
  const profile::ValueRow row = row_of({0x48, 0xf7, 0x33}, memory, {10, 10, 7});
  CHECK(row.part == profile::ValuePart::divisor);
  CHECK(row.bits == 64);
  CHECK(row.figures.count == 3);
  REQUIRE(row.figures.top.size() == 2);
  CHECK(row.figures.top[0].value == 10);
  const trace::Slot rcx{trace::SlotKind::compared, 1, 0};
  const profile::ValueRow bytes = row_of({0xf6, 0xf5}, rcx, {0x1205, 0xff12'0505});
  CHECK(bytes.part == profile::ValuePart::divisor);
  CHECK(bytes.bits == 8);
  REQUIRE(bytes.figures.top.size() == 2);
  CHECK(bytes.figures.top[0].value == 5);
  CHECK(bytes.figures.top[1].value == 0x12);
}
