// SPDX-License-Identifier: MIT
#include "profile/tables/stream_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

// Two lines that a processor's prefetcher takes for one walk may have so many references between
// them.
constexpr size_t kJustBefore = 4;

// Lines of a damaged file may be as far apart as no lines are.
constexpr int64_t distance(int64_t from, int64_t to) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}
constexpr bool are_neighbours(int64_t a, int64_t b) {
  const int64_t step = distance(a, b);
  return step >= -1 && step <= 1;
}

// What is known of an instruction's walk.
struct Walk {
  int64_t line = 0;
  int64_t step = 0;
  bool has_line = false;
};

}  // namespace

std::optional<StreamOrder> stream_order_from(std::string_view name) {
  for (size_t i = 0; i < kStreamOrders; i++)
    if (name == kStreamOrderNames[i]) return static_cast<StreamOrder>(i);
  return std::nullopt;
}

// Each line counts where the stream comes to it first.
StreamShape shape_of(const StreamRow& row) {
  StreamShape shape;
  if (row.references.empty()) return shape;
  std::map<int64_t, bool> seen;
  std::map<uint32_t, Walk> walks;
  std::map<int64_t, uint64_t> strides;
  uint64_t counts[kStreamOrders] = {};
  const auto& all = row.references;
  for (size_t i = 0; i < all.size(); i++) {
    Walk& walk = walks[all[i].insn];
    const int64_t line = all[i].line, step = distance(walk.line, line);
    const bool is_new = !std::exchange(seen[line], true);
    if (is_new && i != 0) {
      bool is_near = walk.has_line && are_neighbours(line, walk.line);
      for (size_t k = i - std::min(i, kJustBefore); k < i; k++)
        is_near |= are_neighbours(line, all[k].line);
      const bool goes_on = walk.has_line && walk.step != 0 && step == walk.step;
      const auto order = is_near   ? StreamOrder::contiguous
                         : goes_on ? StreamOrder::strided
                                   : StreamOrder::scattered;
      counts[static_cast<size_t>(order)]++;
      if (order == StreamOrder::strided) strides[step]++;
    }
    walk = {line, walk.has_line ? step : 0, true};
  }
  shape.order = static_cast<StreamOrder>(std::ranges::max_element(counts) - counts);
  shape.lines = seen.size();
  shape.span = static_cast<uint64_t>(distance(seen.begin()->first, seen.rbegin()->first)) + 1;
  if (shape.order == StreamOrder::strided)
    shape.stride =
        std::ranges::max_element(strides, {}, [](const auto& s) { return s.second; })->first;
  return shape;
}

bool comes_before(const CodeRef& a, const CodeRef& b) {
  return std::tie(a.offset, a.module) < std::tie(b.offset, b.module);
}

void add_streams(StreamRow& a, const StreamRow& b) {
  const auto is_hotter = [](const StreamRow& x, const StreamRow& y) {
    const auto of = [](const StreamRow& row) {
      return std::tuple(row.hottest_heat, row.references.size());
    };
    if (of(x) != of(y)) return of(x) > of(y);
    return std::ranges::lexicographical_compare(
        x.references, y.references, {},
        [](const StreamReference& r) { return std::tuple(r.line, r.insn); },
        [](const StreamReference& r) { return std::tuple(r.line, r.insn); });
  };
  if (is_hotter(b, a)) {
    a.hottest_heat = b.hottest_heat;
    a.is_cycle = b.is_cycle;
    a.references = b.references;
  }
  if (a.texts.empty()) a.texts = b.texts;
  add_columns(kStreamColumns, a, b);
}

void add_stream_counts(StreamCounts& into, const StreamCounts& from) {
  if (!from.collected) return;
  into.collected = true;
  add_columns(kStreamCountColumns, into, from);
}

}  // namespace shadowprof::profile
