// SPDX-License-Identifier: MIT
//
// How much of what executes one kind of profile looks at (--condition): all of it, or windows at
// random moments, which stand for all the rest.
#pragma once

#include <atomic>
#include <cstdint>

namespace shadowprof::collect {

// What code does in its first executions is always looked at; after that, windows of `burst`
// records, one for every `every` records on average. Where the engine captures in windows
// (cache/capture_windows.h) these are as long as they are, and open burst / every of the time.
// With burst == every all is looked at.
struct CaptureCondition {
  uint64_t warm_up = 4096;  // executions of each run, or of each fragment
  uint64_t burst = 16'384;
  uint64_t every = 16 * 16'384;
  uint32_t window_us = 0;  // how long windows are at most where a clock opens them; 0: its default

  static constexpr CaptureCondition one_in(uint64_t n) { return {.every = n * 16'384}; }
  bool all() const { return burst >= every; }
  uint32_t weight() const { return burst == 0 || all() ? 1 : static_cast<uint32_t>(every / burst); }
  // The part of the time in which it is looked at, above 0 and at most 1.
  double share() const {
    return all() ? 1 : static_cast<double>(burst) / static_cast<double>(every);
  }
};

// From a run's loop to a collector that opens windows in the trace itself: what holds from the next
// chunk on that it reads.
class ConditionChange {
 public:
  void set(const CaptureCondition& condition) {
    burst_.store(condition.burst, std::memory_order_relaxed);
    every_.store(condition.every, std::memory_order_relaxed);
    changes_.fetch_add(1, std::memory_order_release);
  }
  // Whether there is another one than when `known` was filled in. Were it set once more meanwhile,
  // the next call says so.
  bool take(uint64_t& known, CaptureCondition& condition) const {
    const uint64_t changes = changes_.load(std::memory_order_acquire);
    if (changes == known) return false;
    known = changes;
    const uint64_t burst = burst_.load(std::memory_order_relaxed);
    const uint64_t every = every_.load(std::memory_order_relaxed);
    condition.burst = burst;
    condition.every = every < burst ? burst : every;  // of two that were set at a time
    return true;
  }

 private:
  std::atomic<uint64_t> burst_ = 1;
  std::atomic<uint64_t> every_ = 1;
  std::atomic<uint64_t> changes_ = 0;
};

}  // namespace shadowprof::collect
