// SPDX-License-Identifier: MIT
#include "collect/weights/sample_series.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace {

using shadowprof::kCellsOfRegion;
using shadowprof::collect::ClockFit;
using shadowprof::collect::SampleSeries;
using shadowprof::collect::SampleSpeed;
using shadowprof::trace::CodeShares;

struct Taken {
  int64_t program;
  double used;
  uint64_t instructions;
  size_t phase = 0;  // its code
};

CodeShares only(size_t cell, uint64_t instructions) {
  CodeShares code{};
  code[cell] = instructions;
  return code;
}

SampleSeries series_of(const std::vector<Taken>& samples) {
  SampleSeries series;
  for (const Taken& s : samples) {
    series.recorded(series.taken(s.program, s.used), s.instructions, only(s.phase, s.instructions));
  }
  series.conclude();
  return series;
}

double ratio(const SampleSeries& series, uint64_t a, uint64_t b) {
  return series.of(a, a) / series.of(b, b);
}

// Two phases of which the first has the shorter samples; `length` of them each.
std::vector<Taken> two_phases(size_t length) {
  std::vector<Taken> samples;
  for (size_t i = 0; i < 2 * length; i++) {
    const bool first = i < length;
    samples.push_back({1, static_cast<double>(i + 1), first ? 100u : 900u, first ? 3u : 5u});
  }
  return samples;
}

}  // namespace

TEST_CASE("samples of equal length at equal distances count equally") {
  const SampleSeries series = series_of({{1, 1, 500}, {1, 2, 500, 1}, {1, 3, 500, 2}});
  for (uint64_t n = 1; n <= 3; n++) CHECK(series.of(n, n) == doctest::Approx(1));
}

TEST_CASE("a sample that was withdrawn leaves its number to the next") {
  SampleSeries series;
  CHECK(series.taken(1, 1) == 1);
  const uint64_t failed = series.taken(1, 2);
  series.withdraw(failed);
  CHECK(series.taken(1, 3) == failed);
  series.withdraw(1);  // another one has come after it
  CHECK(series.taken(1, 4) == failed + 1);
}

TEST_CASE("of a program that does the same all the time each instruction counts once") {
  const SampleSeries series = series_of({{1, 10, 1000}, {1, 12, 4000}, {1, 15, 1000}});
  CHECK(series.believed() == 0);
  for (uint64_t n = 1; n <= 3; n++) CHECK(series.of(n, n) == doctest::Approx(1));
}

// Samples of equal time, in turns of two codes of which the second is a hundred times slower. Of
// the first one in `telling` tells how fast it was; 0: none.
SampleSeries fast_and_slow(double noise, int telling = 1) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> disturbed(0, noise);
  SampleSeries series;
  for (int i = 0; i < 60; i++) {
    const bool slow = (i / 10) % 2 == 1;
    const double seconds = 0.001 * disturbed(random);
    const auto instructions = static_cast<uint64_t>((slow ? 1e9 : 1e11) * 0.001);
    const bool tells = slow || (telling != 0 && i % telling == 0);
    series.recorded(series.taken(1, i + 1.0), instructions, only(slow ? 5 : 3, instructions),
                    {.recorded = {static_cast<double>(instructions), tells ? seconds : 0}});
  }
  series.conclude();
  return series;
}

TEST_CASE("a phase that waits for memory has as few instructions as it executes") {
  const SampleSeries series = fast_and_slow(0.3);
  CHECK(series.believed_speeds() > 0.9);
  CHECK(series.speeds_are() != SampleSeries::Speeds::assumed);
  // The clock may be off by that factor.
  CHECK(std::abs(std::log(ratio(series, 1, 11))) < std::log(4.5));
  CHECK(std::abs(std::log(series.instructions_per_second() / 5e10)) < std::log(4.5));
}

TEST_CASE("samples that do not tell how fast they were are as fast as those of such code") {
  const SampleSeries series = fast_and_slow(0.3, 4);
  CHECK(series.speeds_are() == SampleSeries::Speeds::told);
  CHECK(ratio(series, 2, 1) == doctest::Approx(1).epsilon(0.7));
  CHECK(std::abs(std::log(ratio(series, 2, 12))) < std::log(4.5));
  CHECK(std::abs(std::log(series.instructions_per_second() / 5e10)) < std::log(4.5));
}

TEST_CASE("where nobody knows how fast much of the code is, speeds are assumed") {
  const SampleSeries series = fast_and_slow(0.3, 0);
  CHECK(series.speeds_are() == SampleSeries::Speeds::assumed);
  CHECK(series.instructions_per_second() > 0);  // of half of it, which is slow
}

TEST_CASE("speeds are not believed where samples of the same code differ") {
  SampleSeries series;
  std::mt19937_64 random(12);
  std::lognormal_distribution<double> disturbed(0, 1);
  for (int i = 0; i < 60; i++)
    series.recorded(series.taken(1, i + 1.0), 1000, only(random() % 3, 1000),
                    {.recorded = {1000, 1e-3 * disturbed(random)}});
  series.conclude();
  CHECK(series.believed_speeds() < 0.5);
  CHECK(series.speeds_are() == SampleSeries::Speeds::assumed);
}

TEST_CASE("samples that do not tell how fast they were leave it to the others") {
  SampleSeries series;
  for (int i = 0; i < 40; i++) {
    const bool tells = i % 4 == 0;
    series.recorded(series.taken(1, i + 1.0), 1000, only(1, 1000),
                    {.recorded = tells ? SampleSpeed{600, 2e-7} : SampleSpeed{}});
  }
  series.conclude();
  CHECK(series.instructions_per_second() == doctest::Approx(3e9));
  CHECK(series.speeds_are() == SampleSeries::Speeds::alike);
}

TEST_CASE("speeds are assumed where samples differ and tell of none") {
  CHECK(series_of(two_phases(10)).speeds_are() == SampleSeries::Speeds::assumed);
  CHECK(series_of({{1, 1, 500}, {1, 2, 900}, {1, 3, 500}}).speeds_are() !=
        SampleSeries::Speeds::assumed);
}

TEST_CASE("differences that are chance are not believed") {
  std::mt19937_64 random(7);
  std::vector<Taken> samples;
  for (int i = 0; i < 50; i++)
    samples.push_back({1, i + 1.0, random() % 2 ? 100u : 10'000u, random() % 8});
  CHECK(series_of(samples).believed() < 0.5);
}

TEST_CASE("a sample of a phase counts for the time that it stands for, however long it was") {
  const SampleSeries series = series_of(two_phases(20));
  CHECK(series.believed() > 0.95);
  CHECK(ratio(series, 2, 39) == doctest::Approx(std::pow(9, series.believed())));
  CHECK(ratio(series, 2, 3) == doctest::Approx(1));
  // What is counted in all is what was recorded.
  CHECK(20 * 100 * series.of(2, 2) + 20 * 900 * series.of(39, 39) == doctest::Approx(20'000));
  CHECK(series.of(1, 40) == doctest::Approx(1));
}

TEST_CASE("pieces that were drawn evenly count by their length, and by phases as all do") {
  // Each second a piece of 1,000 instructions or of 9,000, by turns; then of a tenth of that.
  SampleSeries series, by_time;
  for (size_t i = 0; i < 400; i++) {
    const uint64_t length = (i % 2 == 0 ? 1000 : 9000) / (i < 200 ? 1 : 10);
    const size_t cell = (i < 200 ? 3 : 7) + i % 2;
    const auto used = static_cast<double>(i + 1);
    series.recorded(series.taken(1, used), length, only(cell, length), {},
                    SampleSeries::Drawn::evenly);
    by_time.recorded(by_time.taken(1, used), length, only(cell, length));
  }
  series.conclude();
  by_time.conclude();
  CHECK(ratio(series, 100, 101) == doctest::Approx(1).epsilon(0.1));
  CHECK(ratio(series, 300, 301) == doctest::Approx(1).epsilon(0.1));
  CHECK(ratio(series, 300, 100) == doctest::Approx(10).epsilon(0.2));
  CHECK(ratio(by_time, 101, 100) > 5);
}

TEST_CASE("of many samples some say how far times are believed") {
  const SampleSeries series = series_of(two_phases(2500));
  CHECK(series.believed() > 0.99);
  CHECK(ratio(series, 2, 4999) == doctest::Approx(std::pow(9, series.believed())));
}

TEST_CASE("the clock corrects samples whose code is not kept as it does those near them") {
  SampleSeries series;
  for (size_t i = 0; i < 5000; i++) {
    const size_t cell = i < 2500 ? 3 : 5;
    series.recorded(series.taken(1, static_cast<double>(i + 1)), 1000, only(cell, 1000));
  }
  ClockFit::Shares ticks{};
  ticks[3 / kCellsOfRegion] = 9000;
  ticks[5 / kCellsOfRegion] = 1000;
  series.conclude(ticks);
  for (const uint64_t first : {100, 1001, 2000, 2402})
    CHECK(ratio(series, first, 4801) == doctest::Approx(ratio(series, 8, 4808)));
  CHECK(ratio(series, 8, 4808) > 5);
}

TEST_CASE("a sample stands for half of the time to those before it and behind it") {
  // 2 (1 before it, as much as after it), 2.5, 3, 3 and 3.
  const SampleSeries series =
      series_of({{1, 10, 1000}, {1, 12, 1000}, {1, 15, 90'000, 1}, {1, 18, 90'000, 1}});
  REQUIRE(series.believed() > 0.5);
  CHECK(ratio(series, 2, 1) == doctest::Approx(std::pow(2.5 / 2, series.believed())));
  CHECK(ratio(series, 3, 1) == doctest::Approx(std::pow(3.0 / 2 / 90, series.believed())));
  CHECK(ratio(series, 4, 3) == doctest::Approx(1));
}

TEST_CASE("before the first sample there is no more than the program has run") {
  const SampleSeries series =
      series_of({{1, 0.5, 1000}, {1, 4.5, 1000}, {1, 8.5, 90'000, 1}, {1, 12.5, 90'000, 1}});
  REQUIRE(series.believed() > 0.2);
  CHECK(ratio(series, 2, 1) == doctest::Approx(std::pow(4 / 2.5, series.believed())));
}

TEST_CASE("each program has its own time, and an only sample the mean") {
  const SampleSeries series = series_of({{1, 10, 100},
                                         {2, 500, 9000, 1},
                                         {1, 11, 100},
                                         {2, 503, 9000, 1},
                                         {3, 7, 100},
                                         {1, 12, 100},
                                         {2, 506, 9000, 1}});
  REQUIRE(series.believed() > 0.1);
  CHECK(ratio(series, 2, 4) == doctest::Approx(1));
  CHECK(ratio(series, 2, 1) == doctest::Approx(std::pow(3.0 / 90, series.believed())));
  CHECK(ratio(series, 5, 1) == doctest::Approx(std::pow(2, series.believed())));
}

TEST_CASE("without times, or for samples that are not known, all count equally") {
  CHECK(series_of({}).of(1, 1) == 1);
  CHECK(series_of({{1, 3, 100}}).of(1, 1) == 1);
  CHECK(series_of({{1, 0, 100}, {1, 0, 300, 1}}).of(1, 1) == 1);
  const SampleSeries series = series_of({{1, 1, 100}, {1, 2, 0}, {1, 3, 300}});
  CHECK(series.of(2, 2) == 1);
  CHECK(series.of(9, 12) == 1);
  CHECK(series.of(0, 0) == 1);
}
