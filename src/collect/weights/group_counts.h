// SPDX-License-Identifier: MIT
//
// How counts are distributed over samples, for the errors of a sampled profile
// (profile/confidence.h). Counts that only grow are looked at between samples, and what they grew
// by is kept: a pass over all of them for each group, nothing for each event.
//
// A group is one observation at first: a sample, or those of a replica that have one number, as
// they follow one another at once. When there are kMostGroups, neighbours are put together and
// groups are as many observations longer from there on; so there are between half of that and all
// of it. Brief samples (trace/record.h) are in groups of their own, of which there are as many: one
// that was a thousand times as long would be all that is seen of a group. In each group the counts
// that are less than a share of it (kLeastShare) are not kept, which bounds memory. weigh() makes
// of the groups what they are worth (sample_weights.h).
//
//   if is_other_kind(): look(), if is_next() and due(): look(), began()    a sample begins
//   if due(): look()                                                       a replica has ended
//   look(), close()          after the last one; then groups(), weigh()
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collect/weights/sample_weights.h"
#include "profile/confidence.h"
#include "trace/record.h"

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
    double by_time = 1;          // by the time alone it would count so many times more
    uint64_t first = 0;          // sample
    uint64_t last = 0;
    profile::GroupSize size() const { return {total, by_time}; }
  };

  explicit GroupCounts(double least_share = kLeastShare) : least_share_(least_share) {}

  // Was something counted since the last look for a sample that does not belong with this one?
  bool is_other_kind(uint64_t number) const {
    return number != 0 && is_pending_ && trace::is_brief(number) != is_brief_;
  }
  // Does an observation begin with this sample while the one before is open?
  bool is_next(uint64_t number) const { return open_number_ != 0 && number > open_number_; }
  // A sample has this number; 0: another thread of the one before.
  void began(uint64_t number) {
    is_pending_ = true;
    if (number == 0) return;
    open_number_ = trace::is_brief(number) == is_brief_ ? std::max(open_number_, number) : number;
    is_brief_ = trace::is_brief(number);
    Group& open = series().open;
    open.first = open.first == 0 ? number : std::min(open.first, number);
    open.last = std::max(open.last, number);
  }

  // An observation has ended. True: counts must be looked at.
  bool due() {
    open_number_ = 0;
    Series& now = series();
    return ++now.samples >= now.samples_in_group;
  }
  // Then: count number i, of `size`, is count(i) now.
  template <typename Count>
  void look(size_t size, Count count) {
    is_pending_ = false;
    const Group grown = grown_since(size, count);
    for (size_t i = 0; i < size; i++) before_[i] = count(i);
    add(grown);
  }
  // After the last look: the last groups are what they are.
  void close();
  // Counts have other numbers from now on, by the one that they had; kGone: there is no such count
  // any more. Groups stay as large as they are.
  static constexpr uint32_t kGone = ~uint32_t{0};
  void renumber(std::span<const uint32_t> numbers);
  // Groups count as much as their samples. Returns what each of `size` counts becomes by that, less
  // what it was.
  std::vector<double> weigh(const SampleWeights& weights, size_t size);

  // For all samples, after close(). Fewer than two: nothing is known.
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
  // Samples of one kind.
  struct Series {
    std::vector<Group> groups;
    Group open;  // of the samples since
    uint64_t samples = 0;
    uint64_t samples_in_group = 1;
  };
  Series& series() { return series_[is_brief_ ? 1 : 0]; }
  void add(const Group& grown);
  void keep_largest(Group& group) const;
  void halve(Series& full) const;

  double least_share_;
  std::array<Series, 2> series_;
  std::vector<Group> groups_;
  std::vector<uint64_t> before_;
  bool is_brief_ = false;  // the present sample
  uint64_t open_number_ = 0;
  bool is_pending_ = false;  // it, or others of its kind, since the last look
};

// A count that is to be more by `more`, and never none.
uint64_t weighted(uint64_t count, double more);

profile::GroupSizes sizes_of(const std::vector<GroupCounts::Group>& groups);

}  // namespace shadowprof::collect
