// SPDX-License-Identifier: MIT
#include "sample/core_speed.h"

#include <algorithm>
#include <cstdint>

#include "base/thread_time.h"
#include "kernel/proc.h"
#include "sample/own_cores.h"

namespace shadowprof::sample {
namespace {

constexpr uint64_t kSteps = 20'000;
constexpr int kTries = 3;
// Clock rates change by less.
constexpr double kShared = 0.15;
// What programs lose is less than what work loses that never waits.
constexpr double kMost = 0.3;

// As many instructions at a time as a core can execute: work that waits, for memory or for its own
// results, leaves room for another thread, and hardly notices one.
uint64_t work(uint64_t seed) {
  uint64_t a = seed, b = ~seed, c = seed * 3, d = seed + 7;
  for (uint64_t i = 0; i < kSteps; i++) {
    a += b ^ i;
    b += c >> 3;
    c ^= d + i;
    d += a & 0xff;
  }
  return a ^ b ^ c ^ d;
}

}  // namespace

double CoreSpeed::slow_down_of(Tid replica, Tid program) {
  const auto stat = kernel::read_thread_stat(replica, replica);
  const auto beside = kernel::read_thread_stat(program, program);
  if (!stat || !beside || stat->processor < 0 || stat->processor == beside->processor) return 0;
  const OwnCores cores;
  if (!OwnCores::stay_on(static_cast<size_t>(stat->processor))) return 0;
  double seconds = std::numeric_limits<double>::infinity();
  volatile uint64_t result = 1;
  for (int i = 0; i < kTries; i++) {
    const double start = seconds_of_this_thread();
    result = work(result);
    seconds = std::min(seconds, seconds_of_this_thread() - start);
  }
  least_ = std::min(least_, seconds);
  const double longer = seconds / least_ - 1;
  return longer < kShared ? 0 : std::min(longer, kMost);
}

}  // namespace shadowprof::sample
