// SPDX-License-Identifier: MIT
//
// Calling contexts while a trace is read: nodes in order of appearance, each below the one that it
// was called from. What runs in a node is a block that was called, or (in the stack that a sample
// began with) an address. profile/tables/context_table.h is what becomes of it.
//
// Bounded in both directions: nesting beyond kMostDepth stays in one node, and when there is no
// room for more nodes, what would need one is counted in kOther.
#pragma once

#include <cstdint>
#include <vector>

#include "collect/table_builder.h"
#include "collect/weights/group_counts.h"
#include "profile/profile.h"

namespace shadowprof::collect {

class ContextTree {
 public:
  static constexpr uint32_t kRoot = 0;     // of threads that are followed from their start
  static constexpr uint32_t kUnknown = 1;  // of those that began anywhere
  static constexpr uint32_t kOther = 2;

  ContextTree();

  // Below `parent`. Equal arguments give equal nodes.
  uint32_t called(uint32_t parent, uint32_t block) { return find(parent, block); }
  // `address`: within the function that runs there.
  uint32_t on_stack(uint32_t parent, GuestAddr address) {
    return find(parent, kAddress | address.value);
  }

  void add_instructions(uint32_t node, uint64_t count) { nodes_[node].self += count; }
  void add_call(uint32_t node) { nodes_[node].calls++; }

  size_t node_count() const { return nodes_.size(); }
  uint64_t instructions(size_t node) const { return nodes_[node].self; }
  uint64_t calls(size_t node) const { return nodes_[node].calls; }
  void set(size_t node, uint64_t instructions, uint64_t calls) {
    nodes_[node].self = instructions;
    nodes_[node].calls = calls;
  }

  // `groups`: of samples, by nodes.
  void finish(const TableBuilder& builder, const trace::BlockTable& table,
              const std::vector<GroupCounts::Group>& groups, profile::Profile& out) const;

 private:
  static constexpr uint64_t kAddress = uint64_t{1} << 63;
  static constexpr uint64_t kDeeper = kAddress - 1;  // is no block

  struct Node {
    uint64_t key = 0;
    uint64_t self = 0;
    uint64_t calls = 0;
    uint32_t parent = 0;
    uint32_t depth = 0;
  };

  uint32_t find(uint32_t parent, uint64_t key);
  uint32_t add(uint32_t parent, uint64_t key, size_t slot);
  void grow();
  size_t slot_of(uint32_t parent, uint64_t key) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> index_;  // by hash; kRoot: free
};

}  // namespace shadowprof::collect
