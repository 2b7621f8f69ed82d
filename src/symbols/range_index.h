// SPDX-License-Identifier: MIT
//
// Nested ranges of addresses (functions with labels inside, inlined calls inside functions, units
// of debug information) turned once into disjoint pieces, so that each lookup is a binary search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shadowprof::symbols {

// Half-open [start, end); `index` names what it belongs to.
struct IndexedRange {
  uint64_t start = 0;
  uint64_t end = 0;
  uint32_t index = 0;
};

class RangeIndex {
 public:
  RangeIndex() = default;

  // Where ranges overlap, the one that starts later wins, and of those that start together the one
  // that comes later in `ranges`. Empty ranges vanish. For properly nested input that is: the
  // innermost wins, provided that parents precede their children.
  static RangeIndex innermost_wins(std::vector<IndexedRange> ranges);

  // The later in `ranges` wins wherever it lies: the newest occupant of recycled addresses.
  static RangeIndex last_wins(const std::vector<IndexedRange>& ranges);

  const IndexedRange* find(uint64_t address) const {
    auto after = std::upper_bound(
        pieces_.begin(), pieces_.end(), address,
        [](uint64_t wanted, const IndexedRange& piece) { return wanted < piece.start; });
    if (after == pieces_.begin()) return nullptr;
    const IndexedRange& piece = *(after - 1);
    return address < piece.end ? &piece : nullptr;
  }

  // Where the next piece behind `address` begins; the last address there is where none does.
  uint64_t next_start(uint64_t address) const {
    auto after = std::upper_bound(
        pieces_.begin(), pieces_.end(), address,
        [](uint64_t wanted, const IndexedRange& piece) { return wanted < piece.start; });
    return after == pieces_.end() ? ~uint64_t{0} : after->start;
  }

  // Sorted and disjoint.
  const std::vector<IndexedRange>& pieces() const { return pieces_; }

 private:
  std::vector<IndexedRange> pieces_;
};

}  // namespace shadowprof::symbols
