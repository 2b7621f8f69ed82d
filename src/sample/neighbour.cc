// SPDX-License-Identifier: MIT
#include "sample/neighbour.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace shadowprof::sample {
namespace {

// Somewhat more than a core's own caches hold, and arithmetic in between.
constexpr size_t kWords = size_t{1} << 18;
constexpr int kSteps = 60'000;
constexpr int kRuns = 5;
// What is more than that is somebody else's doing.
constexpr double kMost = 0.3;

uint64_t work(std::vector<uint64_t>& memory, uint64_t seed) {
  uint64_t x = seed;
  for (int i = 0; i < kSteps; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    uint64_t& word = memory[x >> 46];
    word += x;
    x ^= word;
  }
  return x;
}
static_assert(kWords == size_t{1} << (64 - 46));

double median_time(std::vector<uint64_t>& memory) {
  std::vector<double> times;
  for (int i = 0; i < kRuns; i++) {
    const auto start = std::chrono::steady_clock::now();
    memory[0] += work(memory, static_cast<uint64_t>(i));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

}  // namespace

double neighbour_cost() {
  if (std::thread::hardware_concurrency() < 2) return 0;
  std::vector<uint64_t> mine(kWords), theirs(kWords);
  (void)median_time(mine);  // pages and clock speed settle
  const double alone = median_time(mine);
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::thread neighbour([&] {
    for (; !stop; rounds++) theirs[0] += work(theirs, 1);
  });
  // By then it is where it will stay.
  while (rounds < kRuns) std::this_thread::yield();
  const double together = median_time(mine);
  stop = true;
  neighbour.join();
  return std::clamp(together / alone - 1, 0.0, kMost);
}

}  // namespace shadowprof::sample
