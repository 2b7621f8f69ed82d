// SPDX-License-Identifier: MIT
//
// How often each cache line was read and written. Memory is bounded: of more than `capacity` lines
// the half with fewer accesses is forgotten (what a line had when it was forgotten counts for it
// when it comes back), so no line that was accessed more than error_bound() times is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shadowprof::collect {

class LineCounts {
 public:
  static constexpr size_t kDefaultCapacity = size_t{1} << 20;

  explicit LineCounts(size_t capacity = kDefaultCapacity);

  // `line`: an address / kCacheLineBytes.
  void add(uint64_t line, uint64_t loads, uint64_t stores) {
    accesses_ += loads + stores;
    size_t i = home(line);
    while (table_[i].key != line + 1) {
      if (table_[i].key == 0) return insert(line, loads, stores);
      i = (i + 1) & mask_;
    }
    table_[i].loads += loads;
    table_[i].stores += stores;
  }

  template <typename Use>
  void for_each(Use use) const {
    for (const Entry& e : table_)
      if (e.key != 0) use(e.key - 1, e.loads, e.stores);
  }
  size_t size() const { return size_; }
  uint64_t accesses() const { return accesses_; }
  uint64_t pruned() const { return pruned_; }
  uint64_t error_bound() const { return error_bound_; }

 private:
  struct alignas(32) Entry {
    uint64_t key;  // line + 1; 0: free
    uint64_t loads;
    uint64_t stores;
    uint64_t error;  // accesses that it may have had before
    uint64_t weight() const { return loads + stores + error; }
  };

  void insert(uint64_t line, uint64_t loads, uint64_t stores);
  void prune();
  void rehash(size_t slots);
  // Two lines that follow one another are one line of the table's memory.
  size_t home(uint64_t line) const {
    return (((line >> 1) * 0x9E3779B97F4A7C15ull >> shift_) << 1 | (line & 1)) & mask_;
  }

  const size_t capacity_;
  std::vector<Entry> table_;  // open addressing, at most half full
  size_t mask_ = 0;
  int shift_ = 0;
  size_t size_ = 0;
  uint64_t accesses_ = 0;
  uint64_t pruned_ = 0;
  uint64_t error_bound_ = 0;
};

}  // namespace shadowprof::collect
