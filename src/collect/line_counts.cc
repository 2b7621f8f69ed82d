// SPDX-License-Identifier: MIT
#include "collect/line_counts.h"

#include <algorithm>
#include <bit>

namespace shadowprof::collect {

LineCounts::LineCounts(size_t capacity) : capacity_(capacity) {
  rehash(4096);
}

void LineCounts::insert(uint64_t line, uint64_t loads, uint64_t stores) {
  if (size_ == capacity_) prune();
  if (2 * (size_ + 1) > table_.size()) rehash(2 * table_.size());
  size_t i = home(line);
  while (table_[i].key != 0) i = (i + 1) & mask_;
  table_[i] = {line + 1, loads, stores, error_bound_};
  size_++;
}

void LineCounts::rehash(size_t slots) {
  std::vector<Entry> before(slots, Entry{});
  before.swap(table_);
  mask_ = slots - 1;
  shift_ = 65 - std::countr_zero(slots);
  size_ = 0;
  for (const Entry& e : before) {
    if (e.key == 0) continue;
    size_t i = home(e.key - 1);
    while (table_[i].key != 0) i = (i + 1) & mask_;
    table_[i] = e;
    size_++;
  }
}

void LineCounts::prune() {
  std::vector<uint64_t> weights;
  for (const Entry& e : table_)
    if (e.key != 0) weights.push_back(e.weight());
  const auto middle = weights.begin() + static_cast<ptrdiff_t>(weights.size() / 2);
  std::nth_element(weights.begin(), middle, weights.end());
  const uint64_t limit = *middle;
  error_bound_ = std::max(error_bound_, limit);
  for (Entry& e : table_) {
    if (e.key == 0 || e.weight() > limit) continue;
    pruned_ += e.loads + e.stores;
    e = {};
  }
  rehash(table_.size());
}

}  // namespace shadowprof::collect
