// SPDX-License-Identifier: MIT
//
// How counts are distributed over samples, for the errors of a sampled profile
// (profile/confidence.h). Counts that only grow are looked at between samples, and what they grew
// by is kept: a pass over all of them for each group, nothing for each event.
//
// A group is one sample at first. When there are kMostGroups, neighbours are put together and
// groups are as many samples longer from there on; so there are between half of that and all of it.
// In each group the counts that are less than a share of it (kLeastShare) are not kept, which bounds
// memory. weigh() makes of the groups what they are worth (sample_weights.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "collect/sample_weights.h"

namespace shadowprof::collect {

class GroupCounts {
 public:
  static constexpr size_t kMostGroups = 64;
  static constexpr double kLeastShare = 2e-5;

  struct Entry {
    uint32_t index;
    uint64_t count;
  };
  struct Group {
    std::vector<Entry> entries;  // by index
    double total = 0;            // of all counts, those that were not kept included
    uint64_t first = 0;          // sample
    uint64_t last = 0;
  };

  explicit GroupCounts(double least_share = kLeastShare) : least_share_(least_share) {}

  // A sample has this number.
  void began(uint64_t number) {
    first_ = first_ == 0 ? number : std::min(first_, number);
    last_ = std::max(last_, number);
  }

  // A sample has ended. True: counts must be looked at.
  bool due() { return ++samples_ >= samples_in_group_; }
  // Then: count number i, of `size`, is count(i) now.
  template <typename Count>
  void look(size_t size, Count count) {
    Group group = grown_since(size, count);
    if (group.total == 0) return;
    for (size_t i = 0; i < size; i++) before_[i] = count(i);
    samples_ = 0;
    // Threads of one sample end one after the other.
    if (first_ == 0 && !groups_.empty()) return add_to_last(group);
    group.first = std::exchange(first_, 0);
    group.last = std::exchange(last_, 0);
    groups_.push_back(std::move(group));
    if (groups_.size() == kMostGroups) halve();
  }
  // The counts have other numbers now.
  void renumbered() { *this = GroupCounts(least_share_); }
  // Groups count as much as their samples. Returns what each of `size` counts becomes by that, less
  // what it was.
  std::vector<double> weigh(const SampleWeights& weights, size_t size);

  // Fewer than two: nothing is known.
  const std::vector<Group>& groups() const { return groups_; }

 private:
  template <typename Count>
  Group grown_since(size_t size, Count count) {
    before_.resize(std::max(before_.size(), size));
    Group group;
    for (size_t i = 0; i < size; i++) group.total += static_cast<double>(count(i) - before_[i]);
    const uint64_t least = least_of(group);
    for (size_t i = 0; i < size; i++)
      if (const uint64_t n = count(i) - before_[i]; n >= least)
        group.entries.push_back({static_cast<uint32_t>(i), n});
    return group;
  }
  uint64_t least_of(const Group& group) const {
    return static_cast<uint64_t>(group.total * least_share_) + 1;
  }
  void keep_largest(Group& group) const;
  void add_to_last(const Group& group);
  void halve();

  double least_share_;
  std::vector<Group> groups_;
  std::vector<uint64_t> before_;
  uint64_t first_ = 0;  // sample since the last look
  uint64_t last_ = 0;
  uint64_t samples_ = 0;
  uint64_t samples_in_group_ = 1;
};

// A count that is to be more by `more`, and never none.
uint64_t weighted(uint64_t count, double more);

// Of how many groups of one size groups of these sizes are worth (Kish): samples grow as a run goes
// on.
uint32_t effective_groups(const std::vector<GroupCounts::Group>& groups);

}  // namespace shadowprof::collect
