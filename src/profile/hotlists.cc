// SPDX-License-Identifier: MIT
#include "profile/hotlists.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "profile/profile.h"

namespace shadowprof::profile {
namespace {

double share_of(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Place place_of(const Profile& profile, const LineLookup& lines, CodeRef at) {
  Place place;
  place.module = profile.modules[at.module].path;
  place.offset = at.offset;
  if (const Function* f = find_function(profile.functions, at)) {
    place.function = f->name;
    if (f->at == at) {
      place.file = f->file;
      place.line = f->line;
    }
  }
  if (lines && place.file.empty()) {
    if (auto line = lines(at)) {
      place.file = std::move(line->file);
      place.line = line->line;
    }
  }
  return place;
}

// Indices of the `limit` rows with the largest weight; the tables are sorted by place, so the index
// breaks ties.
template <typename Rows, typename Weight>
std::vector<size_t> hottest(const Rows& rows, size_t limit, Weight weight) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  limit = std::min(limit, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(limit), order.end(),
                    [&](size_t a, size_t b) {
                      return std::tuple(weight(rows[b]), a) < std::tuple(weight(rows[a]), b);
                    });
  order.resize(limit);
  return order;
}

}  // namespace

Hotlists compute_hotlists(const Profile& profile, size_t limit, const LineLookup& lines) {
  Hotlists lists;
  const Tables& t = profile.tables;
  const auto place = [&](CodeRef at) { return place_of(profile, lines, at); };

  for (size_t i : hottest(profile.functions, limit,
                          [](const Function& f) { return std::tuple(f.self, f.inclusive); })) {
    const Function& f = profile.functions[i];
    const uint64_t all = profile.coverage.attributed;
    lists.methods.push_back({static_cast<uint32_t>(lists.methods.size() + 1), place(f.at), f.self,
                             f.inclusive, share_of(f.self, all), share_of(f.inclusive, all),
                             f.invocations, f.loop_iterations});
  }
  uint64_t all_calls = 0;
  for (const CallPair& c : t.calls) all_calls += c.count;
  for (size_t i : hottest(t.calls, limit, [](const CallPair& c) { return c.count; })) {
    const CallPair& c = t.calls[i];
    lists.call_pairs.push_back({static_cast<uint32_t>(lists.call_pairs.size() + 1), place(c.site),
                                place(c.callee), c.indirect, c.count, share_of(c.count, all_calls),
                                c.inclusive});
  }
  uint64_t all_edges = 0;
  for (const Edge& e : t.edges) all_edges += e.count;
  for (size_t i : hottest(t.edges, limit, [](const Edge& e) { return e.count; })) {
    const Edge& e = t.edges[i];
    lists.edges.push_back({static_cast<uint32_t>(lists.edges.size() + 1), place(e.from),
                           place(e.to), e.kind, e.count, share_of(e.count, all_edges)});
  }
  return lists;
}

}  // namespace shadowprof::profile
