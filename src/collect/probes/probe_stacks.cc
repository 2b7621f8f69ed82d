// SPDX-License-Identifier: MIT
#include "collect/probes/probe_stacks.h"

#include <algorithm>

#include "base/spread.h"

namespace shadowprof::collect {

bool ProbeStacks::is(uint32_t number, uint64_t hash, const ProbeStack& stack) const {
  return stacks_[number].hash == hash && std::ranges::equal(calls(number), stack.all());
}

std::optional<uint32_t> ProbeStacks::number_of(const ProbeStack& stack) {
  uint64_t hash = stack.size;
  for (const uint64_t call : stack.all()) hash = spread(hash ^ call ^ hash >> 29);
  size_t i = (hash >> 32) & (slots_.size() - 1);
  for (; slots_[i] != 0; i = (i + 1) & (slots_.size() - 1))
    if (is(slots_[i] - 1, hash, stack)) return slots_[i] - 1;
  if (stacks_.size() >= most_) return std::nullopt;
  stacks_.push_back(
      {static_cast<uint32_t>(calls_.size()), static_cast<uint32_t>(stack.size), hash});
  calls_.insert(calls_.end(), stack.all().begin(), stack.all().end());
  const auto number = static_cast<uint32_t>(stacks_.size());
  slots_[i] = number;
  if (stacks_.size() * 2 > slots_.size()) grow();
  return number - 1;
}

void ProbeStacks::grow() {
  slots_.assign(slots_.size() * 4, 0);
  for (uint32_t s = 0; s < stacks_.size(); s++) {
    size_t i = (stacks_[s].hash >> 32) & (slots_.size() - 1);
    while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = s + 1;
  }
}

}  // namespace shadowprof::collect
