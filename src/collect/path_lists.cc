// SPDX-License-Identifier: MIT
#include "collect/path_lists.h"

#include <algorithm>
#include <bit>

namespace shadowprof::collect {

PathLists::PathLists(size_t capacity) : capacity_(std::max<size_t>(capacity, 2)) {
  table_.assign(4096, kFree);
}

void PathLists::add(uint64_t hash, std::span<const uint32_t> elements, uint32_t from) {
  executions_++;
  const size_t mask = table_.size() - 1;
  size_t i = hash >> 20 & mask;
  for (; table_[i] != kFree; i = (i + 1) & mask) {
    List& list = lists_[table_[i]];
    if (list.hash != hash) continue;
    list.count++;
    if (list.from == from) {
      list.votes++;
    } else if (list.votes == 0) {
      list.from = from;
      list.votes = 1;
    } else {
      list.votes--;
    }
    return;
  }
  table_[i] = static_cast<uint32_t>(lists_.size());
  lists_.push_back({hash, 1, error_bound_, static_cast<uint32_t>(elements_.size()),
                    static_cast<uint32_t>(elements.size()), from, 1});
  elements_.insert(elements_.end(), elements.begin(), elements.end());
  if (lists_.size() >= capacity_) prune();
  if (2 * lists_.size() > table_.size()) rehash();
}

void PathLists::prune() {
  std::vector<uint64_t> weights;
  for (const List& list : lists_) weights.push_back(list.count + list.error);
  const auto middle = weights.begin() + static_cast<ptrdiff_t>(weights.size() / 2);
  std::nth_element(weights.begin(), middle, weights.end());
  error_bound_ = std::max(error_bound_, *middle);
  std::vector<List> kept;
  std::vector<uint32_t> kept_elements;
  for (List list : lists_) {
    if (list.count + list.error <= *middle) {
      pruned_ += list.count;
      continue;
    }
    const auto own = elements(list);
    list.first = static_cast<uint32_t>(kept_elements.size());
    kept_elements.insert(kept_elements.end(), own.begin(), own.end());
    kept.push_back(list);
  }
  lists_ = std::move(kept);
  elements_ = std::move(kept_elements);
  rehash();
}

void PathLists::rehash() {
  table_.assign(std::max<size_t>(4096, std::bit_ceil(4 * lists_.size())), kFree);
  const size_t mask = table_.size() - 1;
  for (uint32_t l = 0; l < lists_.size(); l++) {
    size_t i = lists_[l].hash >> 20 & mask;
    while (table_[i] != kFree) i = (i + 1) & mask;
    table_[i] = l;
  }
}

}  // namespace shadowprof::collect
