// SPDX-License-Identifier: MIT
#include "collect/probes/probe_counts.h"
#include "base/spread.h"

namespace shadowprof::collect {

size_t ProbeCounts::home(const Tuple& tuple) const {
  uint64_t hash = 0;
  for (const uint64_t number : tuple) hash = spread(hash ^ number ^ hash >> 29);
  return (hash >> 32) & (slots_.size() - 1);
}

void ProbeCounts::find(const Tuple& tuple) {
  size_t i = home(tuple);
  for (; slots_[i] != 0; i = (i + 1) & (slots_.size() - 1))
    if (entries_[slots_[i] - 1].tuple == tuple) return add_to(slots_[i] - 1);
  if (entries_.size() >= most_) {
    others_++;
    return;
  }
  entries_.push_back({.tuple = tuple});
  const auto number = static_cast<uint32_t>(entries_.size());
  slots_[i] = number;
  if (entries_.size() * 2 > slots_.size()) grow();
  add_to(number - 1);
}

void ProbeCounts::grow() {
  slots_.assign(slots_.size() * 4, 0);
  for (uint32_t e = 0; e < entries_.size(); e++) {
    size_t i = home(entries_[e].tuple);
    while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = e + 1;
  }
}

void ProbeCounts::end_observation() {
  const profile::GroupSize all{static_cast<double>(counted_now_)};
  for (const uint32_t t : touched_) {
    entries_[t].errors.add(entries_[t].now, all);
    entries_[t].now = 0;
  }
  touched_.clear();
  if (counted_now_ == 0) return;
  observations_++;
  sizes_.add(all);
  counted_now_ = 0;
}

// One observation tells nothing: all that was counted.
uint64_t ProbeCounts::error_of(const Entry& entry) const {
  if (sizes_.worth() < 2) return counted_;
  const double share = static_cast<double>(entry.count) / static_cast<double>(counted_);
  const auto error = static_cast<double>(entry.errors.error(observations_, sizes_, share));
  return static_cast<uint64_t>(profile::error_of_few(sizes_.worth(), error));
}

}  // namespace shadowprof::collect
