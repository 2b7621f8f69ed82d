// SPDX-License-Identifier: MIT
#include "profile/hotlists.h"

#include "profile/hotlist_rows.h"

namespace shadowprof::profile {
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
  const auto instructions = [](const PathRow& p) { return std::tuple(p.count * p.insns, p.count); };
  for (size_t i : hottest(t.paths, limit, instructions)) {
    const PathRow& p = t.paths[i];
    HotPath path{static_cast<uint32_t>(lists.paths.size() + 1),
                 p.count,
                 share_of(p.count, profile.coverage.paths.executions),
                 p.count * p.insns,
                 share_of(p.count * p.insns, profile.coverage.attributed),
                 {},
                 {}};
    if (p.from_known) path.from = place(p.from);
    for (const CodeRef block : p.blocks) path.blocks.push_back(place(block));
    lists.paths.push_back(std::move(path));
  }
  const LatencyCalibration calibration = profile.run.host.latency.value_or(LatencyCalibration{});
  for (size_t i : hottest(t.latencies, limit,
                          [&](const LatencyRow& l) { return l.lost_cycles(calibration); })) {
    const LatencyRow& l = t.latencies[i];
    HotLoad load{static_cast<uint32_t>(lists.load_latency.size() + 1),
                 place(l.at),
                 l.executions,
                 l.timed,
                 l.mean(),
                 l.quantile(0.5),
                 l.quantile(0.9),
                 l.quantile(0.99),
                 {},
                 l.lost_cycles(calibration),
                 l.kind,
                 l.stride};
    for (size_t c = 0; c < kLatencyClasses; c++) load.classes[c] = share_of(l.classes[c], l.timed);
    lists.load_latency.push_back(std::move(load));
  }
  add_value_hotlists(profile, limit, lines, lists);
  return lists;
}

}  // namespace shadowprof::profile
