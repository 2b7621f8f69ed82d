// SPDX-License-Identifier: MIT
//
// How often each cache line was read and written. The counters of a page's lines lie side by side,
// and where those of a page lie is remembered in a small table by the low bits of its number: to
// count an access takes no branch that depends on where it goes, unless its page is not in that.
//
// Memory is bounded: of more than `capacity` pages the half whose hottest lines are coldest is
// forgotten (what a line had when it was forgotten counts for it when it comes back), so no line
// that was accessed more than error_bound() times is missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/reserved_array.h"
#include "base/spread.h"
#include "profile/tables/memory_table.h"

namespace shadowprof::collect {

// What an access adds: loads in the low half, stores in the high one.
inline constexpr uint64_t kOneLoad = 1;
inline constexpr uint64_t kOneStore = uint64_t{1} << 32;

class LineCounts {
 public:
  static constexpr size_t kDefaultCapacity = size_t{1} << 17;
  // Half a counter has 32 bits: so many may be added between one call of settle() and the next.
  static constexpr uint64_t kMostUnsettled = uint64_t{3} << 30;

  struct Line {
    uint64_t line = 0;  // an address / kCacheLineBytes
    uint64_t loads = 0;
    uint64_t stores = 0;
    uint64_t accesses() const { return loads + stores; }
  };

  explicit LineCounts(size_t capacity = kDefaultCapacity);

  // `accesses`: a sum of kOneLoad and kOneStore.
  void add(uint64_t address, uint64_t accesses) {
    const uint64_t page = address / limits::kPageBytes;
    const Way& way = ways_[page % kWays];
    if (way.page != page) [[unlikely]]
      open_way(address);
    *reinterpret_cast<uint64_t*>(way.origin + address / profile::kCacheLineBytes * kBytes) +=
        accesses;
  }
  // Many at once, of a line that will not be forgotten.
  void add(const Line& line);
  void settle();

  // The most accessed `rows` lines, in no order. What the others had counts as pruned from now on.
  std::vector<Line> hottest(size_t rows);

  // What add() looks into, for code that does the same (line_code.h): the counters of a page's
  // lines. If it has another page, open_way() is to be called first.
  static constexpr size_t kWays = 4096;
  static constexpr size_t kLines = limits::kPageBytes / profile::kCacheLineBytes;
  static constexpr size_t kBytes = sizeof(uint64_t);  // of a counter
  struct Way {
    uint64_t page;
    uint64_t origin;  // where the counter of line 0 would be, if all lines' were side by side
  };
  const Way* ways() const { return ways_.data(); }
  void open_way(uint64_t address);

  size_t size() const;  // lines that are not forgotten
  uint64_t accesses() const;
  uint64_t pruned() const { return lost_.pruned; }
  uint64_t error_bound() const { return lost_.error_bound; }

 private:
  static constexpr uint64_t kNoPage = ~uint64_t{0};

  using Counts = std::array<uint64_t, kLines>;
  struct Page {
    uint64_t number;  // kNoPage: free
    uint64_t error;   // accesses that any of its lines may have had before
  };

  size_t find(uint64_t page);
  size_t insert(uint64_t page);
  void place(size_t index);
  void prune();
  void forget(size_t index);
  void forget_ways();
  uint64_t hottest_of(size_t index) const;
  size_t home(uint64_t page) const { return spread(page) >> shift_; }
  template <typename Use>
  void for_each(Use use) const;

  const size_t capacity_;
  std::array<Way, kWays> ways_;
  ReservedArray<Counts> counts_;  // of pages_
  std::vector<Page> pages_;
  std::vector<uint32_t> free_;   // indices of pages_
  std::vector<uint32_t> table_;  // index of a page + 1, by its number; open addressing
  int shift_ = 0;
  std::unordered_map<uint64_t, Line> many_;  // what does not fit in a counter
  profile::AccessCounts lost_;  // what no line has: pruned, error_bound
};

}  // namespace shadowprof::collect
