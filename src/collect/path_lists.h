// SPDX-License-Identifier: MIT
//
// Counts of lists of run ids, by their hash, in bounded memory: see path_collector.h for the
// pruning rule. Hashes have 64 well-mixed bits, so equal ones are taken for equal lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shadowprof::collect {

class PathLists {
 public:
  struct List {
    uint64_t hash;
    uint64_t count;
    uint64_t error;  // executions that may have been lost before it was taken in
    uint32_t first;  // in elements()
    uint32_t size;
    uint32_t from;  // majority vote (Boyer and Moore): 1 + call site, or 0
    uint32_t votes;
  };

  explicit PathLists(size_t capacity);

  void add(uint64_t hash, std::span<const uint32_t> elements, uint32_t from);

  const std::vector<List>& lists() const { return lists_; }
  std::span<const uint32_t> elements(const List& list) const {
    return {elements_.data() + list.first, list.size};
  }
  uint64_t executions() const { return executions_; }
  uint64_t pruned() const { return pruned_; }
  uint64_t error_bound() const { return error_bound_; }

 private:
  static constexpr uint32_t kFree = ~0u;
  void prune();
  void rehash();

  const size_t capacity_;
  std::vector<List> lists_;
  std::vector<uint32_t> elements_;
  std::vector<uint32_t> table_;  // open addressing, at most half full: index of a list
  uint64_t executions_ = 0;
  uint64_t pruned_ = 0;
  uint64_t error_bound_ = 0;
};

}  // namespace shadowprof::collect
