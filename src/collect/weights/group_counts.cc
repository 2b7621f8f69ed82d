// SPDX-License-Identifier: MIT
#include "collect/weights/group_counts.h"

#include <cmath>

namespace shadowprof::collect {
namespace {

GroupCounts::Group sum_of(const GroupCounts::Group& a, const GroupCounts::Group& b) {
  GroupCounts::Group sum;
  sum.total = a.total + b.total;
  sum.first = a.first == 0 ? b.first : a.first;
  sum.last = std::max(a.last, b.last);
  auto x = a.entries.begin();
  auto y = b.entries.begin();
  while (x != a.entries.end() || y != b.entries.end()) {
    if (y == b.entries.end() || (x != a.entries.end() && x->index < y->index)) {
      sum.entries.push_back(*x++);
    } else if (x == a.entries.end() || y->index < x->index) {
      sum.entries.push_back(*y++);
    } else {
      sum.entries.push_back({x->index, x->count + y->count});
      ++x;
      ++y;
    }
  }
  return sum;
}

}  // namespace

uint64_t weighted(uint64_t count, double more) {
  if (count == 0) return 0;
  return static_cast<uint64_t>(std::max(1LL, std::llround(static_cast<double>(count) + more)));
}

void GroupCounts::renumber(std::span<const uint32_t> numbers) {
  const auto in = [&](Group& group) {
    for (Entry& entry : group.entries) entry.index = numbers[entry.index];
    std::erase_if(group.entries, [](const Entry& entry) { return entry.index == kGone; });
    std::ranges::sort(group.entries, {}, &Entry::index);
  };
  for (Series& one : series_) {
    std::ranges::for_each(one.groups, in);
    in(one.open);
  }
  // Those that are new since the last look have been none then.
  const auto gone = static_cast<size_t>(std::ranges::count(numbers, kGone));
  std::vector<uint64_t> before(numbers.size() - gone, 0);
  for (size_t i = 0; i < before_.size(); i++)
    if (numbers[i] != kGone) before[numbers[i]] = before_[i];
  before_ = std::move(before);
}

std::vector<double> GroupCounts::weigh(const SampleWeights& weights, size_t size) {
  std::vector<double> more(size, 0);
  for (Group& group : groups_) {
    const double weight = weights.of(group.first, group.last);
    group.total *= weight;
    group.by_time = weights.by_time(group.first, group.last);
    for (Entry& entry : group.entries) {
      const auto count = static_cast<double>(entry.count);
      if (entry.index < size) more[entry.index] += (weight - 1) * count;
      entry.count = static_cast<uint64_t>(std::llround(weight * count));
    }
  }
  return more;
}

profile::GroupSizes sizes_of(const std::vector<GroupCounts::Group>& groups) {
  profile::GroupSizes sizes;
  for (const GroupCounts::Group& group : groups) sizes.add(group.size());
  return sizes;
}

void GroupCounts::keep_largest(Group& group) const {
  const uint64_t least = least_of(group);
  std::erase_if(group.entries, [least](const Entry& entry) { return entry.count < least; });
  group.entries.shrink_to_fit();
}

void GroupCounts::add(const Group& grown) {
  Series& now = series();
  const bool is_full = now.samples >= now.samples_in_group;
  if (grown.total > 0 && now.open.first == 0 && !now.groups.empty()) {
    // Threads of one sample end one after the other.
    now.groups.back() = sum_of(now.groups.back(), grown);
  } else if (grown.total > 0) {
    now.open = sum_of(now.open, grown);
  }
  if (!is_full || now.open.total == 0) return;
  now.samples = 0;
  now.groups.push_back(std::exchange(now.open, {}));
  if (now.groups.size() == kMostGroups) halve(now);
}

void GroupCounts::halve(Series& full) const {
  auto& groups = full.groups;
  for (size_t i = 0; i < kMostGroups / 2; i++)
    keep_largest(groups[i] = sum_of(groups[2 * i], groups[2 * i + 1]));
  groups.resize(kMostGroups / 2);
  full.samples_in_group *= 2;
}

void GroupCounts::close() {
  for (Series& series : series_) {
    if (series.open.total > 0) series.groups.push_back(std::exchange(series.open, {}));
    for (Group& group : series.groups) groups_.push_back(std::move(group));
    series = {};
  }
}

}  // namespace shadowprof::collect
