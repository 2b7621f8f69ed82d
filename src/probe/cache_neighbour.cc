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

constexpr const char* kNotesName = "cache-neighbour";
constexpr size_t kMostRounds = 3;
constexpr int kNothing = -1;

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
  if (!neighbour.be_idle()) return std::nullopt;
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
  const auto two = cores.two_apart();
  if (!two) return std::nullopt;
  (void)OwnCores::stay_on(two->first);
  Neighbour<Loop> neighbour(kPatience);
  if (!neighbour.start(two->second)) return std::nullopt;
  Loop loop;
  std::vector<double> losses;
  for (unsigned pair = 0; pair < kPairs && !neighbour.late(); pair++)
    if (const auto loss = loss_in_pair(loop, neighbour)) losses.push_back(std::max(0.0, *loss));
  if (losses.size() < kTellingPairs) return std::nullopt;
  const auto middle = losses.begin() + static_cast<ptrdiff_t>(losses.size() / 2);
  std::ranges::nth_element(losses, middle);
  return *middle;
}

CacheNeighbourNotes::CacheNeighbourNotes(const HostNotes& notes)
    : notes_(notes), rounds_(notes.load(kNotesName)) {}

std::optional<double> CacheNeighbourNotes::loss() const {
  std::optional<double> least;
  for (const double loss : rounds_)
    if (loss >= 0) least = std::min(loss, least.value_or(loss));
  return least;
}

void CacheNeighbourNotes::add(const std::function<std::optional<double>()>& measure) {
  rounds_ = notes_.load(kNotesName);  // others may have run meanwhile
  if (rounds_.size() >= kMostRounds || !notes_.keep()) return;
  rounds_.push_back(measure().value_or(kNothing));
  notes_.store(kNotesName, rounds_);
}

}  // namespace shadowprof::probe
