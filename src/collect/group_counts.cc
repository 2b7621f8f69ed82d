// SPDX-License-Identifier: MIT
#include "collect/group_counts.h"

namespace shadowprof::collect {
namespace {

GroupCounts::Group sum_of(const GroupCounts::Group& a, const GroupCounts::Group& b) {
  GroupCounts::Group sum;
  sum.total = a.total + b.total;
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

uint32_t effective_groups(const std::vector<GroupCounts::Group>& groups) {
  double sum = 0;
  double squares = 0;
  for (const GroupCounts::Group& group : groups) {
    sum += group.total;
    squares += group.total * group.total;
  }
  return squares == 0 ? 0 : static_cast<uint32_t>(sum * sum / squares * (1 + 1e-9));
}

void GroupCounts::halve() {
  for (size_t i = 0; i < kMostGroups / 2; i++)
    groups_[i] = sum_of(groups_[2 * i], groups_[2 * i + 1]);
  groups_.resize(kMostGroups / 2);
  samples_in_group_ *= 2;
  mean_total_ *= 2;
}

}  // namespace shadowprof::collect
