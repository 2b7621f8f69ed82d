// SPDX-License-Identifier: MIT
#include "sample/neighbour.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "base/thread_time.h"
#include "kernel/proc.h"
#include "sample/own_cores.h"

namespace shadowprof::sample {
namespace {

using Clock = std::chrono::steady_clock;

// About what a program works on at a time: in a core's own caches, mostly. With more, two threads
// on cores that share caches would only measure each other's misses.
constexpr size_t kWords = size_t{1} << 16;
constexpr int kSteps = 60'000;
// What is more than that is somebody else's doing.
constexpr double kMost = 0.3;
constexpr int kRounds = 9;  // of a third of a millisecond

uint64_t work(std::vector<uint64_t>& memory, uint64_t seed) {
  uint64_t x = seed;
  for (int i = 0; i < kSteps; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    uint64_t& word = memory[x >> 48];
    word += x;
    x ^= word;
  }
  return x;
}
static_assert(kWords == size_t{1} << (64 - 48));

double time_work(std::vector<uint64_t>& memory) {
  const double start = seconds_of_this_thread();
  memory[0] += work(memory, 1);
  return seconds_of_this_thread() - start;
}

// A thread on another processor that computes while it is told to.
class Neighbour {
 public:
  explicit Neighbour(size_t cpu) : thread_([this, cpu] { live(cpu); }) {}
  ~Neighbour() {
    tell(kGone);
    thread_.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // On a busy machine it may not get its processor for long: then there is no answer worth a wait.
  bool late() const { return Clock::now() > deadline_; }
  // Returns when it does.
  void be_busy() {
    const int before = rounds_;
    tell(kBusy);
    while (rounds_ == before && !late()) std::this_thread::yield();
  }
  void be_idle() {
    tell(kIdle);
    while (!idle_ && !late()) std::this_thread::yield();
  }

 private:
  enum { kIdle, kBusy, kGone };

  void tell(int what) {
    told_ = what;
    told_.notify_one();
  }
  void live(size_t cpu) {
    (void)OwnCores::stay_on(cpu);
    std::vector<uint64_t> memory(kWords);
    while (told_ != kGone) {
      if (told_ == kBusy) {
        idle_ = false;
        memory[0] += work(memory, 2);
        rounds_++;
      } else {
        idle_ = true;
        told_.wait(kIdle);
      }
    }
  }

  const Clock::time_point deadline_ = Clock::now() + std::chrono::milliseconds(20);
  std::atomic<int> told_ = kIdle;
  std::atomic<int> rounds_ = 0;
  std::atomic<bool> idle_ = false;
  std::thread thread_;
};

double cost_of(double together, double alone) {
  return std::clamp(together / alone - 1, 0.0, kMost);
}

// On this processor, with and without one on `other`.
Neighbourhood measure(std::vector<uint64_t>& memory, size_t other) {
  double alone = std::numeric_limits<double>::infinity();
  double together = alone;
  Neighbour neighbour(other);
  for (int round = 0; round < kRounds; round++) {
    neighbour.be_idle();
    alone = std::min(alone, time_work(memory));
    neighbour.be_busy();
    together = std::min(together, time_work(memory));
  }
  return {cost_of(together, alone), alone};
}

// Where it runs at the moment; nothing if it does not.
std::optional<size_t> processor_of(Tid program) {
  const auto stat = kernel::read_thread_stat(program, program);
  if (!stat || stat->state != 'R' || stat->processor < 0) return std::nullopt;
  return static_cast<size_t>(stat->processor);
}

}  // namespace

// The scheduler needs longer than all this takes to spread two threads.
Neighbourhood measure_neighbours() {
  const OwnCores cores;
  const auto cpus = cores.two();
  if (!cpus) return {};
  (void)OwnCores::stay_on(cpus->first);
  std::vector<uint64_t> memory(kWords);
  (void)time_work(memory);
  return measure(memory, cpus->second);
}

std::optional<double> cost_beside(Tid program, double alone) {
  const OwnCores cores;
  const auto core = processor_of(program);
  if (alone <= 0 || !core || !cores.leave(*core)) return std::nullopt;
  std::vector<uint64_t> memory(kWords);
  (void)time_work(memory);
  const double together = std::min(time_work(memory), time_work(memory));
  if (processor_of(program) != core) return std::nullopt;
  return cost_of(together, alone);
}

}  // namespace shadowprof::sample
