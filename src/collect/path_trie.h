// SPDX-License-Identifier: MIT
//
// Counts of lists of run ids as a tree: a node is the list of the elements from its root down to
// it. A path in the making is one node number, and a record moves it to a child. A node remembers
// the child that was asked for last, so what goes the same way as before costs one comparison;
// others are found in a hash table.
//
// Memory: at most `capacity` nodes. When there are more, nodes go whose count + error is at most
// the median of those that have a count, and are no part of a list that stays or is being made. The
// error of a list that is counted for the first time after that is the highest count + error that
// ever went: it may have lost that many executions, and no more (Manku and Motwani, VLDB 2002, with
// windows as long as memory allows).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shadowprof::collect {

class PathTrie {
 public:
  struct Node {
    uint32_t parent;
    uint32_t element;
    uint32_t last_element;  // the child that was asked for last; kNone: none
    uint32_t last_child;
    uint64_t count;
    uint64_t error;
    uint32_t from;  // majority vote (Boyer and Moore): 1 + call site, or 0
    uint32_t votes;
  };
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kRoots = 256;  // nodes 0 .. 255: empty lists of 256 kinds

  explicit PathTrie(size_t capacity);

  uint32_t child(uint32_t node, uint32_t element) {
    Node& n = nodes_[node];
    if (n.last_element == element) return n.last_child;
    return find_child(node, element);
  }

  void count(uint32_t node, uint32_t from) {
    Node& n = nodes_[node];
    if (n.count++ == 0) n.error = error_bound_;
    executions_++;
    if (n.from == from) {
      n.votes++;
    } else if (n.votes == 0) {
      n.from = from;
      n.votes = 1;
    } else {
      n.votes--;
    }
  }

  bool full() const { return nodes_.size() >= capacity_; }
  // `open`: nodes that must stay; they are given their new numbers. All others are invalid.
  void prune(std::span<uint32_t* const> open);

  size_t size() const { return nodes_.size(); }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  // From the root on, whose number is the first.
  std::vector<uint32_t> list(uint32_t node) const;
  uint64_t executions() const { return executions_; }
  uint64_t pruned() const { return pruned_; }
  uint64_t error_bound() const { return error_bound_; }

 private:
  uint32_t find_child(uint32_t node, uint32_t element);
  size_t home(uint32_t node, uint32_t element) const;
  void rehash();

  const size_t capacity_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> table_;  // open addressing, at most half full: index of a node; 0 is free
  uint64_t executions_ = 0;
  uint64_t pruned_ = 0;
  uint64_t error_bound_ = 0;
};

}  // namespace shadowprof::collect
