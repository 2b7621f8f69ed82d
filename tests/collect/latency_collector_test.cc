// SPDX-License-Identifier: MIT
//
// Times of made-up loads: one block of a load and a conditional branch, with the load's address and
// stamps.
#include "collect/loads/latency_collector.h"

#include <doctest/doctest.h>

#include "made_up.h"

namespace {

using namespace shadowprof;
using profile::LatencyClass;
using trace::Word;

// A clock that steps by 26 cycles; stamps without a load take 44.
constexpr profile::LatencyCalibration kClock{
    26, 44, {4, 14, 35, 300}, {4, 4, 5, 7, 15, 10, 4, 4}, 1500, 1};

// One that tells the first caches apart.
constexpr profile::LatencyCalibration kFineClock{
    2, 44, {4, 14, 60, 300}, {4, 4, 5, 7, 15, 10, 4, 4}, 1500, 1};

struct TimedLoop {
  trace::BlockTable table;
  BlockId block;
  RunId run;
  std::vector<Word> words;
  uint32_t stamps_apart;
  bool of_bouts;
  uint64_t place_in_bout = 0;  // as the slot has it

  // Each record has stamps without a load, too, that are `stamps` cycles apart.
  explicit TimedLoop(uint32_t stamps = 0, bool bouts = false)
      : block(test::add_load_loop(table)), stamps_apart(stamps), of_bouts(bouts) {
    std::vector<trace::Slot> slots;
    if (bouts) slots.push_back({trace::SlotKind::bout, 0, 0});
    if (stamps != 0) slots.push_back({trace::SlotKind::stamps, 0, 0});
    slots.push_back({trace::SlotKind::base, 3, 0});
    slots.push_back({trace::SlotKind::load_cycles, 0, 0});
    slots.push_back({trace::SlotKind::value, 0, 0});
    run = test::add_translation(table, block, slots);
  }
  // A translation that does not time them has this one.
  RunId plain() { return test::add_translation(table, block, {}); }
  std::vector<Word> loads(int count, uint32_t elapsed) {
    words.clear();
    for (int i = 0; i < count; i++) load(kAnywhere, elapsed);
    return std::move(words);
  }
  static constexpr uint64_t kAnywhere = 0x7f12'3456'0000;
  void begin(uint64_t number) {
    for (const Word w : trace::sample_start(number)) words.push_back(w);
  }
  void end(trace::EndReason reason) {
    for (const Word w : trace::sample_end(reason)) words.push_back(w);
  }
  void load(uint64_t address, uint32_t elapsed, uint64_t value = 0) {
    const uint32_t stamp = 0xffff'fff0;  // the second one may be the smaller one
    words.push_back(run.value);
    if (of_bouts) words.insert(words.end(), {static_cast<Word>(place_in_bout), 0});
    if (stamps_apart != 0) words.insert(words.end(), {stamp - stamps_apart, stamp});
    words.insert(words.end(),
                 {static_cast<Word>(address), static_cast<Word>(address >> 32), stamp,
                  stamp + elapsed, static_cast<Word>(value), static_cast<Word>(value >> 32)});
  }
  profile::Profile collect(bool of_replicas, size_t cold_lines = 1000,
                           const profile::LatencyCalibration& clock = kClock) {
    collect::LatencyCollectorOptions options;
    options.calibrate = [clock] { return clock; };
    options.of_replicas = of_replicas;
    options.cold_lines = cold_lines;
    collect::LatencyCollector collector(table, std::move(options));
    collector.consume({Tid(1), words});
    profile::Profile p;
    collector.finish(p);
    return p;
  }
};

uint64_t count(const profile::LatencyRow& row, LatencyClass level) {
  return row.classes[static_cast<size_t>(level)];
}

constexpr uint64_t kTimedHeap = 0x7f12'3456'0000;

// How often each of them is executed besides.
constexpr uint64_t kUntimed = 20'000;

profile::LatencyRow row_of_bouts(TimedLoop& loop, const std::vector<uint32_t>& elapsed_by_bout) {
  const RunId plain = loop.plain();
  for (const uint32_t elapsed : elapsed_by_bout)
    for (uint64_t i = 1; i <= trace::kBoutExecutions; i++) {
      loop.place_in_bout = trace::kBoutExecutions - i;
      if (loop.place_in_bout == 0) loop.place_in_bout = trace::kBoutExecutions;
      // The first ones do not count, whatever they take.
      loop.load(TimedLoop::kAnywhere, i <= 4 ? 4444 : elapsed);
    }
  std::vector<uint64_t> executions(loop.table.run_count());
  executions[loop.run.value] = elapsed_by_bout.size() * trace::kBoutExecutions;
  executions[plain.value] = kUntimed;
  collect::LatencyCollectorOptions options;
  options.calibrate = [] { return kClock; };
  options.executions = &executions;
  collect::LatencyCollector collector(loop.table, std::move(options));
  collector.consume({Tid(1), loop.words});
  profile::Profile p;
  collector.finish(p);
  REQUIRE(p.tables.latencies.size() == 1);
  return p.tables.latencies[0];
}

}  // namespace

TEST_CASE("the mean of loads from the first cache is what they take, however coarse the clock is") {
  TimedLoop loop;
  loop.begin(1);
  // 4 and 44 cycles are 26 or 52 by that clock, 52 in 22 of 26 times.
  for (int i = 0; i < 2600; i++) loop.load(kTimedHeap, i % 26 < 22 ? 52 : 26);
  const profile::Profile p = loop.collect(false);
  REQUIRE(p.tables.latencies.size() == 1);
  const profile::LatencyRow& row = p.tables.latencies[0];
  CHECK(row.timed == 2600);
  CHECK(row.mean() == doctest::Approx(4).epsilon(0.02));
  CHECK(count(row, LatencyClass::l1) == 2600);
  CHECK(row.lost_cycles(*p.run.host.latency) == 0);
  CHECK(p.tables.latency_pages.empty());
}

TEST_CASE("what slows the stamps down is not what the loads take") {
  TimedLoop loop(62);  // 18 more than when the host was calibrated
  loop.begin(1);
  for (int i = 0; i < 1000; i++) loop.load(kTimedHeap, 62 + 4);
  for (int i = 0; i < 100; i++) loop.load(kTimedHeap, 62 + 300);
  const profile::Profile p = loop.collect(false, 1000, kFineClock);
  REQUIRE(p.tables.latencies.size() == 1);
  const profile::LatencyRow& row = p.tables.latencies[0];
  CHECK(row.cycles == 1000 * 4 + 100 * 300);
  CHECK(count(row, LatencyClass::l1) == 1000);
  CHECK(count(row, LatencyClass::dram) == 100);
}

TEST_CASE("where stamps take now this and now that the mean tells the first caches apart") {
  TimedLoop loop(44);
  loop.begin(1);
  // A hit of the first cache takes 4 and one of the second 14, in a quarter of all.
  for (int i = 0; i < 8000; i++) {
    loop.stamps_apart = i % 3 == 0 ? 38 : i % 3 == 1 ? 50 : 62;
    const uint32_t stamps = i % 7 < 3 ? 38 : i % 7 == 3 ? 50 : 62;
    loop.load(kTimedHeap, stamps + (i % 4 == 0 ? 14 : 4));
  }
  const profile::Profile p = loop.collect(false, 1000, kFineClock);
  REQUIRE(p.tables.latencies.size() == 1);
  const profile::LatencyRow& row = p.tables.latencies[0];
  CHECK(row.mean() == doctest::Approx(6.5).epsilon(0.05));
  CHECK(count(row, LatencyClass::l2) == doctest::Approx(2000).epsilon(0.1));
  CHECK(count(row, LatencyClass::l1) + count(row, LatencyClass::l2) == 8000);
}

TEST_CASE("an interruption between stamps without a load is not what they take") {
  TimedLoop loop(44);
  loop.begin(1);
  for (int i = 0; i < 1000; i++) {
    loop.stamps_apart = i % 100 == 50 ? 30'000 : 44;
    loop.load(kTimedHeap, 44 + 14);
  }
  const profile::Profile p = loop.collect(false, 1000, kFineClock);
  REQUIRE(p.tables.latencies.size() == 1);
  CHECK(p.tables.latencies[0].mean() == 14);
  CHECK(count(p.tables.latencies[0], LatencyClass::l2) == 1000);
}

TEST_CASE(
    "what share the second cache served is told by the mean where one time does not tell it") {
  TimedLoop loop;
  loop.begin(1);
  // Half of them 4, half 14 cycles: 48 and 58 by that clock are 26, 52 or 78.
  for (int i = 0; i < 5200; i++) {
    if (i % 2 == 0) loop.load(kTimedHeap, i / 2 % 26 < 22 ? 52 : 26);
    if (i % 2 == 1) loop.load(kTimedHeap, i / 2 % 26 < 6 ? 78 : 52);
  }
  const profile::Profile p = loop.collect(false);
  const profile::LatencyRow& row = p.tables.latencies.at(0);
  CHECK(row.mean() == doctest::Approx(9).epsilon(0.02));
  CHECK(count(row, LatencyClass::l1) == doctest::Approx(2600).epsilon(0.05));
  CHECK(count(row, LatencyClass::l2) == 5200 - count(row, LatencyClass::l1));
  CHECK(row.lost_cycles(*p.run.host.latency) == doctest::Approx(5 * 5200).epsilon(0.05));
}

TEST_CASE("pages and values are told of no more loads than their class has") {
  TimedLoop loop;
  loop.begin(1);
  // Two in five look far by that clock, but their mean says that fewer were.
  for (int i = 0; i < 5200; i++)
    loop.load(kTimedHeap, i % 5 < 2 ? 78 : i / 5 % 4 == 0 ? 52 : 26, 7);
  const profile::Profile p = loop.collect(false);
  const profile::LatencyRow& row = p.tables.latencies.at(0);
  REQUIRE(count(row, LatencyClass::l2) > 0);
  REQUIRE(count(row, LatencyClass::l2) < 5200 * 2 / 5);
  REQUIRE(p.tables.latency_pages.size() == 1);
  CHECK(p.tables.latency_pages[0].level == LatencyClass::l2);
  CHECK(p.tables.latency_pages[0].count == count(row, LatencyClass::l2));
  REQUIRE(p.tables.latency_values.size() == 1);
  CHECK(p.tables.latency_values[0].count == count(row, LatencyClass::l2));
}

TEST_CASE("a load from a page that is new in a sample counts, unless it was a page fault") {
  for (const bool of_replicas : {true, false}) {
    TimedLoop loop;
    loop.begin(1);
    for (uint64_t page = 0; page < 100; page++)
      loop.load(kTimedHeap + page * 4096, page < 10 ? 44 + 2000 : 44 + 300);
    for (uint64_t page = 0; page < 10; page++) loop.load(kTimedHeap + page * 4096 + 64, 44 + 3000);
    const profile::Profile p = loop.collect(of_replicas);
    const profile::LatencyRow& row = p.tables.latencies.at(0);
    CAPTURE(of_replicas);
    CHECK(row.executions == 110);
    CHECK(row.first_touches == (of_replicas ? 10 : 0));  // the program's own faults are its own
    CHECK(row.timed == 110 - row.first_touches);
    CHECK(count(row, LatencyClass::dram) == 90);
    CHECK(count(row, LatencyClass::beyond) == (of_replicas ? 10 : 20));
    CHECK(row.mean() == doctest::Approx(300));
    for (const profile::LatencyPageRow& page : p.tables.latency_pages) {
      CHECK(page.level == LatencyClass::dram);
      CHECK(page.load == profile::CodeRef{0, 0x100});
    }
    CHECK(p.tables.latency_pages.size() == 8);
  }
}

TEST_CASE("what a hypervisor does about its page tables is not memory's") {
  profile::LatencyCalibration slow_faults = kClock;
  slow_faults.fault = 18'900;
  CHECK(slow_faults.class_of(299) == LatencyClass::dram);
  CHECK(slow_faults.class_of(8 * 300 - 1) == LatencyClass::dram);
  CHECK(slow_faults.class_of(9'500) == LatencyClass::beyond);
  CHECK(kClock.class_of(1'480) == LatencyClass::beyond);
  TimedLoop loop;
  loop.begin(1);
  for (uint64_t page = 0; page < 10; page++) {
    loop.load(kTimedHeap + page * 4096, 44 + 9'500);
    loop.load(kTimedHeap + page * 4096 + 64, 44 + 300);
  }
  const profile::Profile p = loop.collect(true, 1000, slow_faults);
  const profile::LatencyRow& row = p.tables.latencies.at(0);
  CHECK(row.first_touches == 10);
  CHECK(row.mean() == doctest::Approx(300));
}

TEST_CASE("early samples of a replica do not count where later ones have enough timed loads") {
  for (const uint64_t later : {uint64_t{31}, uint64_t{32}}) {
    TimedLoop loop;
    for (uint64_t sample = 1; sample <= 3; sample++) {
      loop.begin(sample);
      const uint64_t loads = sample == 3 ? later : 100;
      for (uint64_t i = 0; i < loads; i++) loop.load(kTimedHeap, sample == 3 ? 44 + 35 : 44 + 300);
      loop.end(trace::EndReason::pauses);
    }
    const profile::Profile p = loop.collect(true);
    const profile::LatencyRow& row = p.tables.latencies.at(0);
    CAPTURE(later);
    CHECK(row.executions == 200 + later);
    CHECK(row.timed == (later == 32 ? 32 : 200));
    CHECK(row.mean() == doctest::Approx(later == 32 ? 35 : 300));
    CHECK(loop.collect(false).tables.latencies.at(0).timed == 200 + later);  // no replicas
  }
}

TEST_CASE("what a replica's cold caches may have made slow is an error of the mean") {
  TimedLoop loop;
  loop.begin(1);
  for (uint64_t i = 0; i < 100; i++)
    loop.load(kTimedHeap + i * 64, 44 + 35);  // new lines, from the last cache
  for (uint64_t i = 0; i < 100; i++)
    loop.load(kTimedHeap + i * 64, 44 + 35);  // the same ones again
  for (uint64_t i = 100; i < 200; i++) loop.load(kTimedHeap + i * 64, 44 + 300);  // from memory
  loop.end(trace::EndReason::pauses);
  loop.begin(2);  // of the same replica
  for (uint64_t i = 200; i < 300; i++) loop.load(kTimedHeap + i * 64, 44 + 35);
  loop.end(trace::EndReason::budget);
  {
    const profile::Profile p = loop.collect(true);
    const profile::LatencyRow& row = p.tables.latencies.at(0);
    CHECK(row.cold == 100);
    CHECK(row.cold_cycles == 100 * (35 - 4));
    CHECK(row.cold_error() == doctest::Approx(31.0 / 4));
  }
  // As many lines as the program's own caches have are not in them all.
  CHECK(loop.collect(true, 50).tables.latencies.at(0).cold == 50);
  // Where cores share no cache they come from memory, in the second sample as well.
  {
    profile::LatencyCalibration clock = kClock;
    clock.across = clock.typical[3];
    const profile::Profile p = loop.collect(true, 50, clock);
    const profile::LatencyRow& row = p.tables.latencies.at(0);
    CHECK(row.cold == 300);
    CHECK(row.cold_cycles == 200 * (35 - 4) + 100 * (300 - 4));
  }
  // The program itself is not cold.
  CHECK(loop.collect(false).tables.latencies.at(0).cold == 0);
  loop.begin(3);  // another replica
  for (uint64_t i = 0; i < 10; i++) loop.load(kTimedHeap + i * 64, 44 + 35);
  CHECK(loop.collect(true).tables.latencies.at(0).cold == 110);
}

TEST_CASE("loads of bouts count but for the first ones, and what executes besides is counted") {
  TimedLoop loop(0, true);
  const profile::LatencyRow row = row_of_bouts(loop, std::vector<uint32_t>(10, 48));
  CHECK(row.executions == kUntimed + 320);
  CHECK(row.timed == 280);
  CHECK(count(row, LatencyClass::dram) == 0);
  CHECK(row.mean() == 4);
}

TEST_CASE("the error of a mean by bouts comes from how bouts differ") {
  const auto error_of = [&](uint32_t even, uint32_t odd) {
    TimedLoop loop(0, true);
    return row_of_bouts(loop, {even, odd, even, odd, even, odd, even, odd, even, odd}).mean_error();
  };
  // Ten bouts of 4 or 104 cycles: 50 / sqrt(9), and not as if there were 280 observations.
  CHECK(error_of(48, 148) == doctest::Approx(50 / 3.0).epsilon(0.05));
  CHECK(error_of(48, 48) < 1);
}

TEST_CASE("where all loads are timed no bout says their error") {
  TimedLoop loop;
  loop.words = loop.loads(1000, 48);
  CHECK(loop.collect(false).tables.latencies.at(0).window_squares == 0);
}
