// SPDX-License-Identifier: MIT
#include "probe/contention.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/log.h"
#include "base/processor_time.h"
#include "kernel/proc.h"
#include "probe/neighbour.h"
#include "probe/own_cores.h"

namespace shadowprof::probe {
namespace {

using Clock = std::chrono::steady_clock;

// What a program works on at a time, about: in a core's own caches, mostly. With more, two threads
// on cores that share caches would only measure each other's misses.
class CachedWork {
 public:
  // By this thread's processor time: who else has the processor meanwhile does not matter.
  double seconds(uint64_t seed) {
    const double start = processor_seconds_of_this_thread();
    memory_[0] += work(seed);
    return processor_seconds_of_this_thread() - start;
  }

 private:
  static constexpr unsigned kWordBits = 16;
  static constexpr int kSteps = 60'000;

  uint64_t work(uint64_t seed) {
    uint64_t x = seed;
    for (int i = 0; i < kSteps; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      uint64_t& word = memory_[x >> (64 - kWordBits)];
      word += x;
      x ^= word;
    }
    return x;
  }

  std::vector<uint64_t> memory_ = std::vector<uint64_t>(size_t{1} << kWordBits);
};

// As many instructions at a time as a core can execute: work that waits, for memory or for its own
// results, leaves room for another thread, and hardly notices one. 10 to 40 microseconds.
uint64_t work_that_never_waits(uint64_t seed) {
  constexpr uint64_t kSteps = 20'000;
  uint64_t a = seed, b = ~seed, c = seed * 3, d = seed + 7;
  for (uint64_t i = 0; i < kSteps; i++) {
    a += b ^ i;
    b += c >> 3;
    c ^= d + i;
    d += a & 0xff;
  }
  return a ^ b ^ c ^ d;
}

// By the clock: a thread's processor time, of which a virtual machine takes what it was not given,
// may be half of what it was.
double least_unwaiting_seconds(int tries) {
  auto least = Clock::duration::max();
  volatile uint64_t result = 1;
  for (int i = 0; i < tries; i++) {
    const auto start = Clock::now();
    result = work_that_never_waits(result);
    least = std::min(least, Clock::now() - start);
  }
  return std::chrono::duration<double>(least).count();
}

struct NeighbourWork {
  void operator()() { (void)work.seconds(2); }
  CachedWork work;
};

// What is more than the most is somebody else's doing.
double slow_down(double together_s, double alone_s) {
  constexpr double kMostShare = 0.3;
  return std::clamp(together_s / alone_s - 1, 0.0, kMostShare);
}

// On this processor, with and without one on `other`.
std::optional<BusyCore> measure_beside(CachedWork& work, size_t other) {
  constexpr int kBusyRounds = 9;  // of a third of a millisecond
  constexpr int kTellingRounds = 3;
  constexpr std::chrono::milliseconds kNeighbourWithin{20};
  double alone_s = std::numeric_limits<double>::infinity();
  double together_s = alone_s;
  Neighbour<NeighbourWork> neighbour(kNeighbourWithin);
  if (!neighbour.start(other)) return std::nullopt;
  for (int round = 0; round < kBusyRounds; round++) {
    (void)neighbour.be_idle();
    alone_s = std::min(alone_s, work.seconds(1));
    if (!neighbour.be_busy()) {
      if (round < kTellingRounds) return std::nullopt;
      break;
    }
    together_s = std::min(together_s, work.seconds(1));
  }
  return BusyCore{slow_down(together_s, alone_s), alone_s};
}

// Where it runs at the moment; nothing if it does not.
std::optional<size_t> processor_of(Tid program) {
  const auto stat = kernel::read_thread_stat(program, program);
  if (!stat || stat->state != 'R' || stat->processor < 0) return std::nullopt;
  return static_cast<size_t>(stat->processor);
}

// From now on this thread is where `replica` ran last, unless the program is there.
bool join(Tid replica, Tid program) {
  const auto here = kernel::read_thread_stat(replica, replica);
  const auto there = kernel::read_thread_stat(program, program);
  return here && there && here->processor >= 0 && here->processor != there->processor &&
         OwnCores::stay_on(static_cast<size_t>(here->processor));
}

// Clock rates change by less.
constexpr double kSharedRatio = 1.25;

}  // namespace

// The scheduler needs longer than all this takes to spread two threads.
std::optional<BusyCore> measure_busy_core() {
  const OwnCores cores;
  const auto cpus = cores.two();
  if (!cpus) return std::nullopt;
  (void)OwnCores::stay_on(cpus->first);
  CachedWork work;
  (void)work.seconds(1);
  return measure_beside(work, cpus->second);
}

std::optional<double> busy_core_share_beside(Tid program, double alone_s) {
  const OwnCores cores;
  const auto core = processor_of(program);
  if (alone_s <= 0 || !core || !cores.leave(*core)) return std::nullopt;
  CachedWork work;
  (void)work.seconds(1);
  const double together_s = std::min(work.seconds(1), work.seconds(1));
  if (processor_of(program) != core) return std::nullopt;
  return slow_down(together_s, alone_s);
}

void SharedCore::is_apart(double now_s) {
  constexpr double kLookAgain_s =
      0.03;  // a look takes a tenth of a millisecond of the replica's core
  slow_down_share_ = 0;
  next_look_s_ = now_s + kLookAgain_s;
}

bool SharedCore::ran(double work_s, double now_s) {
  if (work_s >= kSharedRatio * still_s_) return false;
  still_s_ = std::min(still_s_, work_s);
  is_apart(now_s);
  return true;
}

void SharedCore::stood_still(double still_s, double beside_s, double now_s) {
  still_s_ = still_s;
  if (beside_s < kSharedRatio * still_s) return is_apart(now_s);
  slow_down_share_ = std::min(beside_s / still_s - 1, kMostShare);
}

double SharedCore::look(Tid replica, Tid program, double now_s, const Hold& hold) {
  constexpr int kTries = 3;
  constexpr int kTriesStandingStill = 4;  // the other core needs some of that to fall asleep
  if (now_s < next_look_s_) return 0;
  const OwnCores cores;
  if (!join(replica, program)) {
    is_apart(now_s);
    return 0;
  }
  const double before_s = least_unwaiting_seconds(kTries);
  if (ran(before_s, now_s) || !hold) return 0;
  double still_s = 0;
  const auto pause_s = hold([&] { still_s = least_unwaiting_seconds(kTriesStandingStill); });
  if (!pause_s) {
    is_apart(now_s);
    return 0;
  }
  const double beside_s = std::min(before_s, least_unwaiting_seconds(kTries));
  stood_still(still_s, beside_s, now_s);
  detail(
      "the replica's core: work takes {:.1f} us, {:.1f} when the program stands still (at {:.2f} "
      "s)",
      1e6 * beside_s, 1e6 * still_s, now_s);
  return *pause_s;
}

}  // namespace shadowprof::probe
