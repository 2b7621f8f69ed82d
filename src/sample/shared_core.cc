// SPDX-License-Identifier: MIT
#include "sample/shared_core.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/log.h"
#include "kernel/proc.h"
#include "sample/own_cores.h"
#include "sample/sampled_process.h"

namespace shadowprof::sample {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSteps = 20'000;  // 10 to 40 microseconds
constexpr int kTries = 3;
constexpr int kTriesStandingStill = 4;  // the other core needs some of that to fall asleep
// Clock rates change by less.
constexpr double kShared = 1.25;
// Seconds after which cores that were apart are looked at again. A look takes a tenth of a millisecond of the
// replica's core.
constexpr double kLookAgain = 0.03;

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

// By the clock, and the least of several times: a thread's processor time, of which a virtual machine takes what
// it was not given, may be half of what it was.
double time_work(int tries) {
  auto least = Clock::duration::max();
  volatile uint64_t result = 1;
  for (int i = 0; i < tries; i++) {
    const auto start = Clock::now();
    result = work(result);
    least = std::min(least, Clock::now() - start);
  }
  return std::chrono::duration<double>(least).count();
}

}  // namespace

void SharedCore::is_apart(double now) {
  slow_down_ = 0;
  next_look_ = now + kLookAgain;
}

bool SharedCore::ran(double seconds, double now) {
  if (seconds < kShared * still_) {
    still_ = std::min(still_, seconds);
    is_apart(now);
    return true;
  }
  return false;
}

void SharedCore::stood_still(double still, double beside, double now) {
  still_ = still;
  if (beside < kShared * still) return is_apart(now);
  slow_down_ = std::min(beside / still - 1, kMost);
}

double look_at_core(SharedCore& core, Tid replica, SampledProcess& program, double now, bool may_hold) {
  if (now < core.next_look()) return 0;
  const Tid pid = program.program().pid();
  const auto here = kernel::read_thread_stat(replica, replica);
  const auto there = kernel::read_thread_stat(pid, pid);
  const OwnCores cores;
  const bool can_tell = here && there && here->processor >= 0 && here->processor != there->processor &&
                        OwnCores::stay_on(static_cast<size_t>(here->processor));
  if (!can_tell) {
    core.is_apart(now);
    return 0;
  }
  const double before = time_work(kTries);
  if (core.ran(before, now) || !may_hold) return 0;
  double still = 0;
  const auto pause = program.hold([&](shadow::Pause&) { still = time_work(kTriesStandingStill); });
  if (!pause) {
    core.is_apart(now);
    return 0;
  }
  const double beside = std::min(before, time_work(kTries));
  core.stood_still(still, beside, now);
  detail("the replica's core: work takes {:.1f} us, {:.1f} when the program stands still (at {:.2f} s)",
         1e6 * beside, 1e6 * still, now);
  return *pause;
}

}  // namespace shadowprof::sample
