// SPDX-License-Identifier: MIT
#include "collect/paths/path_counts.h"

#include <algorithm>
#include <bit>

namespace shadowprof::collect {

PathCounts::PathCounts(size_t capacity_words) : capacity_words_(capacity_words) {
  rehash(16384);
}

void PathCounts::add(uint64_t hash, std::span<const uint32_t> list, uint32_t from) {
  executions_++;
  const auto number = static_cast<uint32_t>(lists_.size());
  lists_.push_back({error_bound_, 0, static_cast<uint32_t>(elements_.size()),
                    static_cast<uint32_t>(list.size()), from, 1});
  elements_.insert(elements_.end(), list.begin(), list.end());
  if (4 * lists_.size() > table_.size()) rehash(2 * table_.size());
  size_t i = home(hash);
  while (table_[i].count != 0) i = (i + 1) & mask_;
  table_[i] = {hash, 1, number};
}

void PathCounts::carry(const Entry& e, uint64_t executions) {
  executions_ += executions;
  lists_[e.list].carried += executions;
}

// Votes come often enough to keep counts from wrapping around, too.
void PathCounts::vote(Entry& e, uint32_t from) {
  List& l = lists_[e.list];
  if (e.count >= kCarryAt) {
    l.carried += e.count - 1;
    e.count = 1;
  }
  if (l.from == from) {
    l.votes++;
  } else if (l.votes == 0) {
    l.from = from;
    l.votes = 1;
  } else {
    l.votes--;
  }
}

void PathCounts::rehash(size_t slots) {
  std::vector<Entry> before(slots, Entry{});
  before.swap(table_);
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (const Entry& e : before) {
    if (e.count == 0) continue;
    size_t i = home(e.hash);
    while (table_[i].count != 0) i = (i + 1) & mask_;
    table_[i] = e;
  }
}

std::vector<uint64_t> PathCounts::counts_by_list() const {
  std::vector<uint64_t> counts(lists_.size());
  for (const Entry& e : table_) {
    if (e.count != 0) counts[e.list] = lists_[e.list].carried + e.count;
  }
  return counts;
}

std::vector<uint32_t> PathCounts::prune() {
  std::vector<uint32_t> numbers(lists_.size(), kGone);
  std::vector<uint64_t> weights;
  const auto count = [&](const Entry& e) { return lists_[e.list].carried + e.count; };
  const auto weight = [&](const Entry& e) { return count(e) + lists_[e.list].error; };
  for (const Entry& e : table_)
    if (e.count != 0) weights.push_back(weight(e));
  if (weights.empty()) return numbers;
  const auto middle = weights.begin() + static_cast<ptrdiff_t>(weights.size() / 2);
  std::nth_element(weights.begin(), middle, weights.end());
  const uint64_t limit = *middle;
  error_bound_ = std::max(error_bound_, limit);

  std::vector<List> lists;
  std::vector<uint32_t> elements;
  for (Entry& e : table_) {
    if (e.count == 0) continue;
    if (weight(e) <= limit) {
      pruned_ += count(e);
      e.count = 0;
      continue;
    }
    const List old = lists_[e.list];
    const auto kept = list_of(old);
    e.list = numbers[e.list] = static_cast<uint32_t>(lists.size());
    lists.push_back(old);
    lists.back().first = static_cast<uint32_t>(elements.size());
    elements.insert(elements.end(), kept.begin(), kept.end());
  }
  lists_ = std::move(lists);
  elements_ = std::move(elements);
  rehash(table_.size());
  return numbers;
}

}  // namespace shadowprof::collect
