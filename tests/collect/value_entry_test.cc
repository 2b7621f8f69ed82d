// SPDX-License-Identifier: MIT
#include "collect/values/value_entry.h"

#include <doctest/doctest.h>

namespace shadowprof::collect {
namespace {

constexpr uint64_t kAtFirst = 4096;
constexpr uint64_t kExecuted = 100'000;

// A place that gives another value each time, and in windows what it is told to.
class Counter {
 public:
  Counter() {
    for (uint64_t i = 0; i < kAtFirst; i++) sink_.add(entry_, i);
    sink_.end_sample(entry_);
    entry_.executed = kExecuted;
    entry_.window = std::make_unique<WindowStream>();
    entry_.window->stream.hotlist.follow_windows();
  }
  void window(uint64_t value, uint64_t times) {
    ValueEntry& stream = entry_.window->stream;
    for (uint64_t i = 0; i < times; i++) sink_.add(stream, value);
    sink_.end_sample(stream);
    stream.hotlist.end_window();
  }
  profile::ValueFigures figures(bool of_samples) const { return entry_.figures(of_samples); }

 private:
  ValueSink sink_{profile::HotlistKind::counting_sample, 16, 1};
  ValueEntry entry_;
};

TEST_CASE("one value of a window is not what the program computes all the time") {
  for (const bool of_samples : {false, true}) {
    Counter counter;
    counter.window(7, 1);
    const profile::ValueFigures f = counter.figures(of_samples);
    CHECK(f.count == kExecuted);
    CHECK(f.estimated);
    CHECK(f.invariance() < 0.01);
    counter.window(7, 1);
    CHECK(counter.figures(of_samples).invariance() < 0.01);
  }
}

TEST_CASE("windows that have met a place often tell of what was not seen") {
  for (const bool of_samples : {false, true}) {
    Counter counter;
    for (int i = 0; i < 50; i++) counter.window(7, 50);
    const profile::ValueFigures f = counter.figures(of_samples);
    CHECK(f.invariance() == doctest::Approx(1 - static_cast<double>(kAtFirst) / kExecuted));
    CHECK(f.samples >= 2);
  }
}

TEST_CASE("one window, however long, does not say how far others differ from it") {
  Counter counter;
  counter.window(7, 50'000);
  const profile::ValueFigures f = counter.figures(false);
  CHECK(f.invariance() > 0.9);
  CHECK(static_cast<double>(f.top_error) > 0.2 * kExecuted);
}

}  // namespace
}  // namespace shadowprof::collect
