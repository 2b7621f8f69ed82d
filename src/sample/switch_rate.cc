// SPDX-License-Identifier: MIT
#include "sample/switch_rate.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernel/proc.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kMostDrawn = 16;

}  // namespace

double SwitchRate::look(std::mt19937_64& random) {
  const double switches = since_last();
  draw(random);
  return switches;
}

// Nothing is known of threads that have ended: they count as those that are left.
double SwitchRate::since_last() const {
  uint64_t switches = 0;
  size_t seen = 0;
  for (const auto& [thread, before] : runs_) {
    const auto times = kernel::read_schedstat(thread);
    if (!times) continue;
    switches += times->runs - std::min(times->runs, before);
    seen++;
  }
  if (seen == 0) return 0;
  const double of_each = static_cast<double>(switches) / static_cast<double>(seen);
  return of_each * static_cast<double>(threads_);
}

void SwitchRate::draw(std::mt19937_64& random) {
  std::vector<Tid> all;
  for (const Tid process : processes_) {
    const auto threads = kernel::list_threads(process);
    if (threads) all.insert(all.end(), threads->begin(), threads->end());
  }
  threads_ = all.size();
  std::vector<Tid> drawn;
  std::ranges::sample(all, std::back_inserter(drawn), kMostDrawn, random);
  runs_.clear();
  for (const Tid thread : drawn) {
    if (const auto times = kernel::read_schedstat(thread)) runs_[thread] = times->runs;
  }
}

}  // namespace shadowprof::sample
