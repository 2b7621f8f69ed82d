// SPDX-License-Identifier: MIT
//
// What the files that compute hotlists share.
#pragma once

#include <algorithm>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <vector>

#include "profile/profile.h"

namespace shadowprof::profile {

inline double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Place place_of(const Profile& profile, const LineLookup& lines, CodeRef at);
DataPlace place_of(const Profile& profile, const DataRef& at);
// The margin of a share whose error is a count. Nothing: too little was sampled to know it.
Margin margin_of(const Profile& profile, uint64_t error, uint64_t whole);

// Indices of the `limit` rows with the largest weight; the tables are sorted by place, so the index
// breaks ties.
template <typename Rows, typename Weight>
std::vector<size_t> hottest(const Rows& rows, size_t limit, Weight weight) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  limit = std::min(limit, order.size());
  std::vector<std::invoke_result_t<Weight, decltype(rows[0])>> weights;
  weights.reserve(rows.size());
  for (const auto& row : rows) weights.push_back(weight(row));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(limit), order.end(),
      [&](size_t a, size_t b) { return std::tie(weights[b], a) < std::tie(weights[a], b); });
  order.resize(limit);
  return order;
}

// stream_hotlist.cc.
void add_stream_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                        Hotlists& lists);
// probe_hotlist.cc.
void add_probe_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                       Hotlists& lists);
// plugin_hotlist.cc.
void add_plugin_hotlist(const Profile& profile, size_t limit, const LineLookup& lines,
                        Hotlists& lists);
// value_hotlists.cc: values, arguments, targets. `instructions` are asked for rows without text.
void add_value_hotlists(const Profile& profile, size_t limit, const LineLookup& lines,
                        const InstructionLookup& instructions, Hotlists& lists);

}  // namespace shadowprof::profile
