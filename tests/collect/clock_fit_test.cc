// SPDX-License-Identifier: MIT
#include "collect/weights/clock_fit.h"

#include <doctest/doctest.h>

#include <vector>

namespace shadowprof::collect {
namespace {

using Sample = ClockFit::Sample;
using Shares = ClockFit::Shares;

// Its instructions are in cells 0 and 1.
Sample sample_of(double first_share, double time = 1) {
  Sample sample{.time = time};
  sample.code[0] = first_share;
  sample.code[1] = 1 - first_share;
  return sample;
}

Shares ticks_of(double first, double second) {
  Shares ticks{};
  ticks[0] = first;
  ticks[1] = second;
  return ticks;
}

// What samples of cell 0 stand for, of all.
double first_share_of(const std::vector<Sample>& samples, const std::vector<double>& factors) {
  double first = 0, all = 0;
  for (size_t i = 0; i < samples.size(); i++) {
    first += samples[i].code[0] * samples[i].time * factors[i];
    all += samples[i].time * factors[i];
  }
  return first / all;
}

TEST_CASE("samples of phases stand for the time that the clock says the phases take") {
  // By chance there are three of the first phase, which takes a tenth of the time.
  std::vector<Sample> samples(3, sample_of(1));
  samples.resize(10, sample_of(0));
  const ClockFit fit(samples, ticks_of(100, 900));
  CHECK(first_share_of(samples, fit.factors()) == doctest::Approx(0.1).epsilon(0.1));
}

TEST_CASE("few ticks say little") {
  std::vector<Sample> samples(3, sample_of(1));
  samples.resize(10, sample_of(0));
  CHECK(ClockFit(samples, ticks_of(4, 36)).factors() == std::vector<double>(10, 1));
  const double of_few = first_share_of(samples, ClockFit(samples, ticks_of(6, 54)).factors());
  const double of_many = first_share_of(samples, ClockFit(samples, ticks_of(60, 540)).factors());
  CHECK(of_few < 0.3);
  CHECK(of_many < of_few);
}

TEST_CASE("samples of the same code stand for what they stood for: one part of it is slow") {
  const std::vector<Sample> samples(12, sample_of(0.2));
  const ClockFit fit(samples, ticks_of(500, 500));
  for (const double factor : fit.factors()) CHECK(factor == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("of nearly the same code nearly what they stood for") {
  std::vector<Sample> samples;
  for (int i = 0; i < 40; i++) samples.push_back(sample_of(i % 2 == 0 ? 0.18 : 0.22));
  const ClockFit fit(samples, ticks_of(300, 700));
  CHECK(first_share_of(samples, fit.factors()) == doctest::Approx(0.2).epsilon(0.05));
}

TEST_CASE("code that no sample has met says nothing") {
  const std::vector<Sample> samples = {sample_of(1), sample_of(0)};
  Shares ticks = ticks_of(50, 50);
  ticks[2] = 900;
  const ClockFit fit(samples, ticks);
  CHECK(first_share_of(samples, fit.factors()) == doctest::Approx(0.5));
}

TEST_CASE("there is nothing to fit without samples, with one, or without time") {
  CHECK(ClockFit({}, ticks_of(100, 100)).factors().empty());
  CHECK(ClockFit({sample_of(1)}, ticks_of(100, 100)).factors() == std::vector<double>{1});
  const std::vector<Sample> timeless(2, sample_of(1, 0));
  CHECK(ClockFit(timeless, ticks_of(100, 100)).factors() == std::vector<double>(2, 1));
}

}  // namespace
}  // namespace shadowprof::collect
