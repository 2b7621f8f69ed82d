// SPDX-License-Identifier: MIT
//
// How often each path was executed. A path is a list of numbers (path_state.h says of what); it is
// found by a 64-bit hash of its list, which whoever makes the list keeps up to date, so an
// execution costs one look-up however long the list is. Two lists with the same hash would be taken
// for one; with a million lists the chance that any two have is below 1 in 10 million.
//
// Memory: at most `capacity` words. When there are more, paths go whose count + error is at most
// the median's. The error of a path that is counted for the first time after that is the highest
// count + error that ever went: it may have lost that many executions, and no more (Manku and
// Motwani, VLDB 2002, with windows as long as memory allows).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/spread.h"
#include "collect/weights/group_counts.h"

namespace shadowprof::collect {

class PathCounts {
 public:
  static constexpr uint32_t kGone = GroupCounts::kGone;
  struct Path {
    std::span<const uint32_t> list;
    uint64_t count;
    uint32_t from;
    uint32_t number;  // of the list
  };
  // What an entry takes beside its list, in words.
  static constexpr size_t kEntryWords = 48;

  explicit PathCounts(size_t capacity_words);

  // One more execution of the path with this hash, entered from call site `from`. Returns how many
  // there were (from some number on, without what was carried); 0: none, and add() has to count it.
  uint32_t count(uint64_t hash, uint32_t from) {
    Entry& e = find(hash);
    if (e.count == 0) return 0;
    executions_++;
    e.count++;
    // What is beside the count is in another cache line.
    if (e.count <= kFirstVotes || spread(executions_) <= vote_to_) [[unlikely]]
      vote(e, from);
    return e.count;
  }
  // So many more, of which is not known where they were entered from. `list()` is asked when it is
  // not there.
  template <typename List>
  void count_more(uint64_t hash, uint64_t executions, List list) {
    if (find(hash).count == 0) {
      add(hash, list(), 0);
      executions--;
    }
    carry(find(hash), executions);
  }
  // Asks each execution where it is entered from, instead of a sixteenth of them: the executions
  // are a sample already.
  void ask_all(bool all) { vote_to_ = all ? ~uint64_t{0} : kVoteTo; }

  void add(uint64_t hash, std::span<const uint32_t> list, uint32_t from);

  bool full() const { return words_used() >= capacity_words_; }
  // What the numbers of lists have become; kGone: it is no more.
  std::vector<uint32_t> prune();

  template <typename Use>
  void for_each(Use use) const {
    for (const Entry& e : table_) {
      if (e.count == 0) continue;
      const List& l = lists_[e.list];
      use(Path{list_of(l), l.carried + e.count, l.from, e.list});
    }
  }
  size_t size() const { return lists_.size(); }
  // Numbers below size(); prune() gives new ones.
  std::span<const uint32_t> list(uint32_t number) const { return list_of(lists_[number]); }
  std::vector<uint64_t> counts_by_list() const;
  size_t words_used() const { return elements_.size() + kEntryWords * lists_.size(); }
  uint64_t executions() const { return executions_; }
  uint64_t pruned() const { return pruned_; }
  uint64_t error_bound() const { return error_bound_; }

 private:
  // What every execution needs, so it is small: these tables are looked up at random.
  struct alignas(16) Entry {
    uint64_t hash;
    uint32_t count;  // beside what was carried; 0: free
    uint32_t list;
  };
  struct List {
    uint64_t error;
    uint64_t carried;
    uint32_t first;  // of elements_
    uint32_t length;
    uint32_t from;  // majority vote (Boyer and Moore): 1 + call site, or 0
    uint32_t votes;
  };
  // Where a path is entered from is asked at its first executions, then at a sixteenth of all.
  static constexpr uint32_t kFirstVotes = 64;
  static constexpr uint64_t kVoteTo = uint64_t{1} << 60;
  static constexpr uint32_t kCarryAt = uint32_t{1} << 31;

  void vote(Entry& e, uint32_t from);
  void carry(const Entry& e, uint64_t executions);
  void rehash(size_t slots);
  std::span<const uint32_t> list_of(const List& l) const {
    return std::span(elements_).subspan(l.first, l.length);
  }
  size_t home(uint64_t hash) const { return spread(hash) >> shift_; }
  // The path's, or a free one.
  Entry& find(uint64_t hash) {
    size_t i = home(hash);
    while (table_[i].hash != hash && table_[i].count != 0) i = (i + 1) & mask_;
    return table_[i];
  }

  const size_t capacity_words_;
  // Open addressing, at most a quarter full: a second look is a branch not foreseen.
  std::vector<Entry> table_;
  std::vector<List> lists_;
  std::vector<uint32_t> elements_;
  size_t mask_ = 0;
  int shift_ = 0;
  uint64_t vote_to_ = kVoteTo;
  uint64_t executions_ = 0;
  uint64_t pruned_ = 0;
  uint64_t error_bound_ = 0;
};

}  // namespace shadowprof::collect
