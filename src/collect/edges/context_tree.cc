// SPDX-License-Identifier: MIT
#include "collect/edges/context_tree.h"

#include "base/spread.h"

namespace shadowprof::collect {
namespace {

constexpr size_t kMostNodes = size_t{1} << 18;
constexpr uint32_t kMostDepth = 512;
constexpr size_t kFirstIndex = size_t{1} << 12;

}  // namespace

ContextTree::ContextTree() : nodes_(3), index_(kFirstIndex, kRoot) {}

// Linear probing in a power of two of slots.
size_t ContextTree::slot_of(uint32_t parent, uint64_t key) const {
  const uint64_t hash = spread(key ^ (uint64_t{parent} << 32));
  size_t slot = (hash >> 32 ^ hash) & (index_.size() - 1);
  for (;; slot = (slot + 1) & (index_.size() - 1)) {
    const uint32_t node = index_[slot];
    if (node == kRoot || (nodes_[node].parent == parent && nodes_[node].key == key)) return slot;
  }
}

uint32_t ContextTree::find(uint32_t parent, uint64_t key) {
  const Node& above = nodes_[parent];
  if (parent == kOther || above.key == kDeeper) return parent;
  if (above.depth + 1 >= kMostDepth) key = kDeeper;
  const size_t slot = slot_of(parent, key);
  if (index_[slot] != kRoot) return index_[slot];
  return nodes_.size() < kMostNodes ? add(parent, key, slot) : kOther;
}

uint32_t ContextTree::add(uint32_t parent, uint64_t key, size_t slot) {
  const auto node = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({key, 0, 0, parent, nodes_[parent].depth + 1});
  index_[slot] = node;
  if (2 * nodes_.size() > index_.size()) grow();
  return node;
}

void ContextTree::grow() {
  index_.assign(2 * index_.size(), kRoot);
  for (uint32_t node = kOther + 1; node < nodes_.size(); node++)
    index_[slot_of(nodes_[node].parent, nodes_[node].key)] = node;
}

void ContextTree::finish(const TableBuilder& builder, const trace::BlockTable& table,
                         const std::vector<GroupCounts::Group>& groups,
                         profile::Profile& out) const {
  using profile::ContextKind;
  profile::ContextTable& rows = out.tables.contexts;
  std::vector<uint32_t> row_of(nodes_.size(), profile::kNoContext);
  const auto add_row = [&](size_t node, uint32_t parent, ContextKind kind, profile::CodeRef at) {
    row_of[node] = static_cast<uint32_t>(rows.size());
    rows.push_back({parent, kind, at, nodes_[node].self, nodes_[node].calls});
  };
  if (nodes_.size() == kOther + 1 && nodes_[kUnknown].self == 0) return;
  if (nodes_[kRoot].self != 0) add_row(kRoot, profile::kNoContext, ContextKind::other, {});
  add_row(kUnknown, profile::kNoContext, ContextKind::unknown, {});
  if (nodes_[kOther].self != 0) add_row(kOther, profile::kNoContext, ContextKind::other, {});
  for (size_t i = kOther + 1; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    const uint32_t parent = node.parent == kRoot ? profile::kNoContext : row_of[node.parent];
    if (node.key == kDeeper) {
      add_row(i, parent, ContextKind::deeper, {});
      continue;
    }
    const auto at = (node.key & kAddress) != 0
                        ? builder.locate(GuestAddr(node.key & ~kAddress))
                        : builder.at(table.block(BlockId(static_cast<uint32_t>(node.key))));
    // Unknown callers of unknown callers say no more than these.
    if (!at && parent != profile::kNoContext && rows[parent].kind == ContextKind::unknown) {
      row_of[i] = parent;
      rows[parent].self += node.self;
      rows[parent].calls += node.calls;
      continue;
    }
    add_row(i, parent, at ? ContextKind::code : ContextKind::unknown,
            at.value_or(profile::CodeRef{}));
  }
  if (groups.size() < 2) return;
  for (const GroupCounts::Group& group : groups) {
    profile::ContextGroup& to = out.context_groups.emplace_back();
    to.instructions = group.total;
    to.by_time = group.by_time;
    for (const auto& [node, count] : group.entries) to.entries.push_back({row_of[node], count});
  }
}

}  // namespace shadowprof::collect
