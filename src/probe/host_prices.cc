// SPDX-License-Identifier: MIT
#include "probe/host_prices.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "base/log.h"
#include "probe/fault_price.h"

namespace shadowprof::probe {
namespace {

constexpr const char* kFaultsName = "exceptions";
constexpr const char* kBusyCoreName = "busy-core";
constexpr size_t kPricesOfRound = 4;
// Each is measured so often, and in the middle.
constexpr size_t kFaultRounds = 5;
// The least counts. What is less than this is believed at once.
constexpr double kBusyCoreRounds = 4;
constexpr double kCredibleShare = 0.002;
constexpr std::chrono::seconds kLongProgram{3};

std::vector<FaultRound> fault_rounds_from(const std::vector<double>& numbers) {
  std::vector<FaultRound> rounds;
  if (numbers.size() % kPricesOfRound != 0) return rounds;
  for (size_t i = 0; i < numbers.size(); i += kPricesOfRound)
    rounds.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  return rounds;
}

std::vector<double> numbers_of_faults(const std::vector<FaultRound>& rounds) {
  std::vector<double> numbers;
  for (const FaultRound& r : rounds)
    numbers.insert(numbers.end(), {r.copied, r.kept, r.mapped, r.stopped});
  return numbers;
}

// The front has nothing to do but to wait.
void yield_to_others() {
  ::setpriority(PRIO_PROCESS, 0, 19);
}

}  // namespace

struct HostPrices::Shared {
  std::atomic<uint32_t> rounds = 0;  // written last: what it counts is there
  machine::FaultPrice after[kFaultRounds];  // each is written once
};

HostPrices::HostPrices() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  shared_ = new (memory) Shared;
  auto rounds = fault_rounds_from(notes_.load(kFaultsName));
  if (rounds.size() > kFaultRounds) rounds.clear();
  if (rounds.empty()) return;
  shared_->after[rounds.size() - 1] = price_of(rounds);
  shared_->rounds = static_cast<uint32_t>(rounds.size());
}

HostPrices::~HostPrices() {
  if (shared_) ::munmap(shared_, sizeof(Shared));
}

machine::FaultPrice HostPrices::faults() const {
  rounds_known_ = shared_ ? shared_->rounds.load() : 0;
  return rounds_known_ == 0 ? machine::FaultPrice{} : shared_->after[rounds_known_ - 1];
}

std::optional<machine::FaultPrice> HostPrices::news_of_faults() {
  if (!shared_ || shared_->rounds == rounds_known_) return std::nullopt;
  return faults();
}

void HostPrices::measure_faults(const std::function<bool()>& is_over) {
  if (!shared_) return;
  auto rounds = fault_rounds_from(notes_.load(kFaultsName));
  if (rounds.size() >= kFaultRounds) return;
  const size_t before = rounds.size();
  yield_to_others();
  while (rounds.size() < kFaultRounds && !is_over()) {
    const auto round = measure_fault_round();
    if (!round) break;
    rounds.push_back(*round);
    shared_->after[rounds.size() - 1] = price_of(rounds);
    shared_->rounds = static_cast<uint32_t>(rounds.size());
  }
  if (rounds.size() != before) notes_.store(kFaultsName, numbers_of_faults(rounds));
}

void HostPrices::measure_cache_neighbour() {
  if (std::chrono::steady_clock::now() - begun_at_ < kLongProgram) return;
  yield_to_others();
  cache_neighbour_.add(probe::measure_cache_neighbour);
}

BusyCore HostPrices::busy_core() const {
  const auto known = notes_.load(kBusyCoreName);  // share, time alone, rounds
  const bool any = known.size() == 3 && known[0] >= 0 && known[1] >= 0;
  BusyCore found;
  if (any) found = {known[0], known[1]};
  const double rounds = any ? known[2] : 0;
  if (any && (found.share <= kCredibleShare || rounds >= kBusyCoreRounds)) return found;
  const auto again = measure_busy_core();
  if (!again) return found;
  found =
      any ? BusyCore{std::min(found.share, again->share), std::min(found.alone_s, again->alone_s)}
          : *again;
  const double numbers[] = {found.share, found.alone_s, rounds + 1};
  notes_.store(kBusyCoreName, numbers);
  return found;
}

}  // namespace shadowprof::probe
