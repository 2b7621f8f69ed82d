// SPDX-License-Identifier: MIT
#include "collect/loads/line_counts.h"

#include <algorithm>
#include <bit>

namespace shadowprof::collect {
namespace {

constexpr uint64_t loads_of(uint64_t count) {
  return count % kOneStore;
}
constexpr uint64_t stores_of(uint64_t count) {
  return count / kOneStore;
}

}  // namespace

LineCounts::LineCounts(size_t capacity)
    : capacity_(capacity), counts_(capacity), table_(std::bit_ceil(2 * capacity)) {
  shift_ = 64 - std::countr_zero(table_.size());
  forget_ways();
  counts_.prefer_huge_pages();
}

void LineCounts::open_way(uint64_t address) {
  const uint64_t page = address / limits::kPageBytes;
  const uint64_t* counts = counts_[find(page)].data();  // which may forget all ways
  ways_[page % kWays] = {page, reinterpret_cast<uint64_t>(counts) - page * kLines * kBytes};
}

size_t LineCounts::find(uint64_t page) {
  for (size_t i = home(page); table_[i] != 0; i = (i + 1) % table_.size())
    if (pages_[table_[i] - 1].number == page) return table_[i] - 1;
  return insert(page);
}

size_t LineCounts::insert(uint64_t page) {
  if (free_.empty() && pages_.size() == capacity_) prune();
  size_t index = pages_.size();
  if (free_.empty()) {
    pages_.emplace_back();
    counts_.push_back({});
  } else {
    index = free_.back();
    free_.pop_back();
  }
  pages_[index] = {page, lost_.error_bound};
  place(index);
  return index;
}

void LineCounts::place(size_t index) {
  size_t i = home(pages_[index].number);
  while (table_[i] != 0) i = (i + 1) % table_.size();
  table_[i] = static_cast<uint32_t>(index + 1);
}

uint64_t LineCounts::hottest_of(size_t index) const {
  uint64_t most = 0;
  for (const uint64_t count : counts_[index])
    most = std::max(most, loads_of(count) + stores_of(count));
  return most + pages_[index].error;
}

void LineCounts::prune() {
  std::vector<uint64_t> weights;
  for (size_t i = 0; i < pages_.size(); i++) weights.push_back(hottest_of(i));
  std::vector<uint64_t> sorted = weights;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  lost_.error_bound = std::max(lost_.error_bound, *middle);
  std::ranges::fill(table_, 0u);
  for (size_t i = 0; i < pages_.size(); i++) {
    if (weights[i] > *middle) {
      place(i);
    } else {
      forget(i);
    }
  }
  forget_ways();
}

void LineCounts::forget(size_t index) {
  for (uint64_t& count : counts_[index]) {
    lost_.pruned += loads_of(count) + stores_of(count);
    count = 0;
  }
  pages_[index].number = kNoPage;
  free_.push_back(static_cast<uint32_t>(index));
}

void LineCounts::forget_ways() {
  ways_.fill({kNoPage, 0});
}

void LineCounts::add(const Line& line) {
  Line& sum = many_[line.line];
  sum = {line.line, sum.loads + line.loads, sum.stores + line.stores};
}

void LineCounts::settle() {
  constexpr uint64_t kMany = uint64_t{1} << 29;
  for (size_t index = 0; index < pages_.size(); index++) {
    for (size_t i = 0; i < kLines; i++) {
      uint64_t& count = counts_[index][i];
      if (loads_of(count) < kMany && stores_of(count) < kMany) continue;
      add(Line{pages_[index].number * kLines + i, loads_of(count), stores_of(count)});
      count = 0;
    }
  }
}

template <typename Use>
void LineCounts::for_each(Use use) const {
  std::unordered_map<uint64_t, Line> many = many_;
  for (size_t index = 0; index < pages_.size(); index++) {
    for (size_t i = 0; i < kLines; i++) {
      const uint64_t count = counts_[index][i];
      if (count == 0) continue;
      Line line{pages_[index].number * kLines + i, loads_of(count), stores_of(count)};
      if (const auto more = many.extract(line.line)) {
        line.loads += more.mapped().loads;
        line.stores += more.mapped().stores;
      }
      use(line);
    }
  }
  for (const auto& [number, line] : many) use(line);
}

std::vector<LineCounts::Line> LineCounts::hottest(size_t rows) {
  std::vector<Line> lines;
  for_each([&](const Line& line) {
    if (lines.size() == 2 * rows) profile::keep_hottest(lines, rows, lost_);
    lines.push_back(line);
  });
  profile::keep_hottest(lines, rows, lost_);
  return lines;
}

size_t LineCounts::size() const {
  size_t lines = 0;
  for_each([&](const Line&) { lines++; });
  return lines;
}

uint64_t LineCounts::accesses() const {
  uint64_t all = lost_.pruned;
  for_each([&](const Line& line) { all += line.accesses(); });
  return all;
}

}  // namespace shadowprof::collect
