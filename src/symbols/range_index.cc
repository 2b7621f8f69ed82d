// SPDX-License-Identifier: MIT
#include "symbols/range_index.h"

#include <map>

namespace shadowprof::symbols {

RangeIndex RangeIndex::innermost_wins(std::vector<IndexedRange> ranges) {
  std::erase_if(ranges, [](const IndexedRange& range) { return range.start >= range.end; });
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const IndexedRange& a, const IndexedRange& b) { return a.start < b.start; });

  // Sweep over the starts; `open` holds the ranges that are still running, innermost last. All
  // addresses below `position` are decided.
  RangeIndex result;
  result.pieces_.reserve(ranges.size());
  std::vector<IndexedRange> open;
  uint64_t position = 0;
  auto decide_until = [&](uint64_t limit) {
    while (!open.empty() && position < limit) {
      const IndexedRange& top = open.back();
      uint64_t end = std::min(limit, top.end);
      if (position < end) {
        result.pieces_.push_back({position, end, top.index});
        position = end;
      }
      if (top.end <= position) open.pop_back();
    }
  };
  for (const IndexedRange& range : ranges) {
    decide_until(range.start);
    position = std::max(position, range.start);
    open.push_back(range);
  }
  decide_until(UINT64_MAX);
  return result;
}

RangeIndex RangeIndex::last_wins(const std::vector<IndexedRange>& ranges) {
  std::map<uint64_t, IndexedRange> occupied;  // by start, disjoint
  for (const IndexedRange& range : ranges) {
    if (range.start >= range.end) continue;
    auto next = occupied.lower_bound(range.start);
    if (next != occupied.begin()) {
      auto previous = std::prev(next);
      IndexedRange old = previous->second;
      if (old.end > range.start) previous->second.end = range.start;
      if (old.end > range.end) occupied.insert({range.end, {range.end, old.end, old.index}});
    }
    while (next != occupied.end() && next->second.start < range.end) {
      IndexedRange old = next->second;
      next = occupied.erase(next);
      if (old.end > range.end) occupied.insert({range.end, {range.end, old.end, old.index}});
    }
    occupied.insert({range.start, range});
  }
  RangeIndex result;
  result.pieces_.reserve(occupied.size());
  for (const auto& [start, range] : occupied) result.pieces_.push_back(range);
  return result;
}

}  // namespace shadowprof::symbols
