// SPDX-License-Identifier: MIT
#include "probe/cache_neighbour.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/processor_time.h"
#include "probe/neighbour.h"
#include "probe/own_cores.h"

namespace shadowprof::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWords = 7'000'000 / sizeof(uint64_t);
constexpr unsigned kStepsOfRound = 1000;
constexpr Clock::duration kPeriod = std::chrono::milliseconds(3);
// The neighbour may still be waking up, and caches are to be what they are beside it.
constexpr Clock::duration kSettles = std::chrono::microseconds(600);
constexpr unsigned kPairs = 10;
constexpr unsigned kTellingPairs = 5;
// The neighbour was to work in a period, and has made this share of the loop's rounds at least.
constexpr double kWorkedShare = 0.5;
constexpr std::chrono::milliseconds kPatience{200};

class Loop {
 public:
  void operator()() {
    for (unsigned i = 0; i < kStepsOfRound; i++) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      words_[((state_ >> 32) * kWords) >> 32] += state_;
    }
  }

 private:
  std::vector<uint64_t> words_ = std::vector<uint64_t>(kWords);
  uint64_t state_ = 88172645463325252U;
};

struct Period {
  unsigned rounds = 0;
  double seconds = 0;  // of this thread's processor time
  double speed() const { return seconds > 0 ? rounds / seconds : 0; }
};

Period work_for_a_period(Loop& loop) {
  const auto start = Clock::now();
  while (Clock::now() < start + kSettles) loop();
  const double start_s = processor_seconds_of_this_thread();
  Period period;
  for (; Clock::now() < start + kPeriod; period.rounds++) loop();
  period.seconds = processor_seconds_of_this_thread() - start_s;
  return period;
}

// In one pair of periods. Nothing: one of the two loops had no core.
std::optional<double> loss_in_pair(Loop& loop, Neighbour<Loop>& neighbour) {
  neighbour.be_idle();
  const Period alone = work_for_a_period(loop);
  if (!neighbour.be_busy()) return std::nullopt;
  const unsigned before = neighbour.rounds();
  const Period beside = work_for_a_period(loop);
  const unsigned worked = neighbour.rounds() - before;
  if (alone.speed() <= 0 || beside.speed() <= 0 || worked < kWorkedShare * beside.rounds)
    return std::nullopt;
  return alone.speed() / beside.speed() - 1;
}

}  // namespace

std::optional<double> measure_cache_neighbour() {
  const OwnCores cores;
  const auto two = cores.two();
  if (!two) return std::nullopt;
  (void)OwnCores::stay_on(two->first);
  Neighbour<Loop> neighbour(kPatience);
  if (!neighbour.start(two->second)) return std::nullopt;
  Loop loop;
  std::vector<double> losses;
  for (unsigned pair = 0; pair < kPairs; pair++)
    if (const auto loss = loss_in_pair(loop, neighbour)) losses.push_back(std::max(0.0, *loss));
  if (losses.size() < kTellingPairs) return std::nullopt;
  const auto middle = losses.begin() + static_cast<ptrdiff_t>(losses.size() / 2);
  std::ranges::nth_element(losses, middle);
  return *middle;
}

}  // namespace shadowprof::probe
