// SPDX-License-Identifier: MIT
#include "collect/path_trie.h"

#include <algorithm>
#include <bit>

namespace shadowprof::collect {

PathTrie::PathTrie(size_t capacity) : capacity_(capacity + kRoots) {
  for (uint32_t i = 0; i < kRoots; i++) nodes_.push_back({kNone, i, kNone, 0, 0, 0, 0, 0});
  rehash();
}

size_t PathTrie::home(uint32_t node, uint32_t element) const {
  uint64_t z = (uint64_t{node} << 32 | element) * 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 29) * 0xBF58476D1CE4E5B9ull;
  return (z >> 32) & (table_.size() - 1);
}

uint32_t PathTrie::find_child(uint32_t node, uint32_t element) {
  const size_t mask = table_.size() - 1;
  size_t i = home(node, element);
  for (; table_[i] != 0; i = (i + 1) & mask) {
    const Node& n = nodes_[table_[i]];
    if (n.parent == node && n.element == element) break;
  }
  uint32_t child = table_[i];
  if (child == 0) {
    child = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({node, element, kNone, 0, 0, 0, 0, 0});
    table_[i] = child;
    if (2 * nodes_.size() > table_.size()) rehash();
  }
  nodes_[node].last_element = element;
  nodes_[node].last_child = child;
  return child;
}

void PathTrie::rehash() {
  table_.assign(std::max<size_t>(4096, std::bit_ceil(4 * nodes_.size())), 0);
  for (uint32_t n = kRoots; n < nodes_.size(); n++) {
    size_t i = home(nodes_[n].parent, nodes_[n].element);
    while (table_[i] != 0) i = (i + 1) & (table_.size() - 1);
    table_[i] = n;
  }
}

void PathTrie::prune(std::span<uint32_t* const> open) {
  std::vector<uint64_t> weights;
  for (const Node& n : nodes_)
    if (n.count != 0) weights.push_back(n.count + n.error);
  uint64_t limit = 0;
  if (!weights.empty()) {
    const auto middle = weights.begin() + static_cast<ptrdiff_t>(weights.size() / 2);
    std::nth_element(weights.begin(), middle, weights.end());
    limit = *middle;
    error_bound_ = std::max(error_bound_, limit);
  }
  // A parent's number is lower than its children's.
  std::vector<bool> stays(nodes_.size(), false);
  for (const uint32_t* node : open) stays[*node] = true;
  for (auto n = static_cast<uint32_t>(nodes_.size()); n-- > kRoots;) {
    Node& node = nodes_[n];
    if (node.count != 0 && node.count + node.error <= limit) {
      pruned_ += node.count;
      node.count = node.votes = 0;
    }
    if (node.count != 0) stays[n] = true;
    if (stays[n]) stays[node.parent] = true;
  }
  std::vector<uint32_t> moved(nodes_.size(), kNone);
  uint32_t next = 0;
  for (uint32_t n = 0; n < nodes_.size(); n++) {
    if (n >= kRoots && !stays[n]) continue;
    moved[n] = next;
    Node node = nodes_[n];
    node.last_element = kNone;
    if (n >= kRoots) node.parent = moved[node.parent];
    nodes_[next++] = node;
  }
  nodes_.resize(next);
  rehash();
  for (uint32_t* node : open) *node = moved[*node];
}

std::vector<uint32_t> PathTrie::list(uint32_t node) const {
  std::vector<uint32_t> elements;
  for (; node != kNone; node = nodes_[node].parent) elements.push_back(nodes_[node].element);
  std::reverse(elements.begin(), elements.end());
  return elements;
}

}  // namespace shadowprof::collect
