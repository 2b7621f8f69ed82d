// SPDX-License-Identifier: MIT
#include "profile/hotlists/hotlists.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>

#include "profile/evidence.h"
#include "profile/hidden_values.h"
#include "profile/hotlists/hotlist_rows.h"
#include "profile/hotlists/unnamed_code.h"

namespace shadowprof::profile {
namespace {

constexpr ptrdiff_t kMostFrames = 64;  // of a context; the table has all

// Loads that all took the same by a clock that steps are not known better than their number allows:
// the difference of two stamps is off by a step at most, evenly distributed for each. Those of one
// bout do not tell what others take.
double error_of_mean(const LatencyRow& load, const LatencyCalibration& clock) {
  constexpr double kMany = 1e6;
  const double served = static_cast<double>(std::max<uint64_t>(1, load.served()));
  const double error = std::max(load.mean_error(), clock.resolution / std::sqrt(6 * served));
  const auto groups = static_cast<uint32_t>(std::min(load.observations(), kMany));
  return groups < 2 ? std::max(load.mean(), error)
                    : std::min(critical_value(groups) * error, std::max(load.mean(), error));
}

template <typename PlaceOf>
void add_loads(const Profile& profile, size_t limit, PlaceOf place, Hotlists& lists) {
  const LatencyTable& rows = profile.tables.latencies;
  const LatencyCalibration calibration = profile.run.host.latency.value_or(LatencyCalibration{});
  for (size_t i :
       hottest(rows, limit, [&](const LatencyRow& l) { return l.lost_cycles(calibration); })) {
    const LatencyRow& l = rows[i];
    HotLoad load;
    load.rank = static_cast<uint32_t>(lists.load_latency.size() + 1);
    load.at = place(l.at);
    load.executions = l.executions;
    load.timed = l.timed;
    load.mean_cycles = l.mean();
    load.mean_error = error_of_mean(l, calibration);
    load.cold_error = l.cold_error();
    load.by = l.by;
    load.p50 = l.quantile(0.5);
    load.p90 = l.quantile(0.9);
    load.p99 = l.quantile(0.99);
    load.lost_cycles = l.lost_cycles(calibration);
    load.kind = l.kind;
    load.stride = l.stride;
    for (size_t c = 0; c < kLatencyClasses; c++) load.classes[c] = share_of(l.classes[c], l.timed);
    lists.load_latency.push_back(std::move(load));
  }
}

// Those that lose cycles.
std::set<CodeRef> slow_loads(const LatencyTable& loads, const LatencyCalibration& clock) {
  std::set<CodeRef> slow;
  for (const LatencyRow& l : loads)
    if (l.lost_cycles(clock) > 0) slow.insert(l.at);
  return slow;
}

// Pages and values of slow loads by class, and cache lines.
template <typename PlaceOf>
void add_memory(const Profile& profile, size_t limit, PlaceOf place_of_code, Hotlists& lists) {
  const Tables& t = profile.tables;
  const auto load_of = [&](const auto& row) -> std::optional<Place> {
    if (!row.load) return std::nullopt;
    return place_of_code(*row.load);
  };
  const auto place = [&](const DataRef& at) { return place_of(profile, at); };
  std::array<uint64_t, kLatencyClasses> timed{};
  for (const LatencyRow& l : t.latencies)
    for (size_t c = 0; c < kLatencyClasses; c++) timed[c] += l.classes[c];
  const auto& clock = profile.run.host.latency;
  const std::set<CodeRef> slow = clock ? slow_loads(t.latencies, *clock) : std::set<CodeRef>{};
  const auto is_slow = [&](const auto& row) {
    return !clock || !row.load || slow.contains(*row.load);
  };
  const auto slower_first = [&](const auto& row) {
    return std::tuple(is_slow(row), row.level, row.count);
  };
  for (size_t i : hottest(t.latency_pages, limit, slower_first)) {
    const LatencyPageRow& p = t.latency_pages[i];
    if (!is_slow(p)) break;
    lists.latency_pages.push_back({static_cast<uint32_t>(lists.latency_pages.size() + 1), p.level,
                                   place(p.page), p.count,
                                   share_of(p.count, timed[static_cast<size_t>(p.level)]),
                                   load_of(p)});
  }
  for (size_t i : hottest(t.latency_values, limit, slower_first)) {
    const LatencyValueRow& v = t.latency_values[i];
    if (!is_slow(v)) break;
    lists.latency_values.push_back({static_cast<uint32_t>(lists.latency_values.size() + 1), v.level,
                                    v.value, v.count,
                                    share_of(v.count, timed[static_cast<size_t>(v.level)]),
                                    load_of(v)});
  }
  for (size_t i : hottest(t.cache_lines, limit, [](const auto& l) { return l.accesses(); })) {
    const CacheLineRow& l = t.cache_lines[i];
    lists.cache_lines.push_back({static_cast<uint32_t>(lists.cache_lines.size() + 1), place(l.line),
                                 l.loads, l.stores,
                                 share_of(l.accesses(), profile.coverage.accesses.accesses)});
  }
}

template <typename PlaceOf, typename MarginOf>
void add_access_pairs(const AccessPairTable& rows, size_t limit, PlaceOf place, MarginOf margin,
                      std::vector<HotAccessPair>& list) {
  for (size_t i : hottest(rows, limit, [](const AccessPairRow& p) { return p.count; })) {
    const AccessPairRow& p = rows[i];
    HotAccessPair pair;
    pair.rank = static_cast<uint32_t>(list.size() + 1);
    pair.kind = p.kind;
    if (is_pair(p.kind)) pair.from = place(p.from);
    pair.to = place(p.to);
    pair.from_instruction = p.from_text;
    pair.to_instruction = p.to_text;
    pair.count = p.count;
    pair.executions = p.executions;
    pair.share = share_of(p.count, p.executions);
    pair.share_error = margin(p.error, p.executions);
    pair.mean_distance = share_of(p.distance, p.count);
    pair.unknown = p.unknown;
    list.push_back(std::move(pair));
  }
}

std::vector<uint32_t> bytes_of(uint64_t mask) {
  std::vector<uint32_t> bytes;
  for (; mask != 0; mask &= mask - 1)
    bytes.push_back(static_cast<uint32_t>(std::countr_zero(mask)));
  return bytes;
}

template <typename PlaceOf>
void add_sharing_of(const Profile& profile, size_t limit, PlaceOf place, Hotlists& lists) {
  const SharingTable& rows = profile.tables.sharing;
  for (size_t i : hottest(rows, limit, [](const SharingRow& s) { return s.count; })) {
    const SharingRow& s = rows[i];
    HotSharing shared;
    shared.rank = static_cast<uint32_t>(lists.sharing.size() + 1);
    shared.kind = s.kind;
    shared.from = place(s.from);
    shared.to = place(s.to);
    shared.from_instruction = s.from_text;
    shared.to_instruction = s.to_text;
    shared.count = s.count;
    shared.stretches = s.stretches;
    shared.lines = s.lines;
    shared.from_executions = s.from_executions;
    shared.to_executions = s.to_executions;
    shared.line = place_of(profile, s.line);
    shared.line_share = share_of(s.line_count, s.count);
    shared.from_bytes = bytes_of(s.from_bytes);
    shared.to_bytes = bytes_of(s.to_bytes);
    lists.sharing.push_back(std::move(shared));
  }
}

template <typename PlaceOf, typename MarginOf>
void add_contexts_of(const Profile& profile, size_t limit, PlaceOf place, MarginOf margin,
                     Hotlists& lists) {
  const ContextTable& rows = profile.tables.contexts;
  const auto own = [](const ContextRow& c) { return c.self; };
  for (size_t i : hottest(rows, limit, own)) {
    if (rows[i].self == 0) break;
    HotContext context;
    context.rank = static_cast<uint32_t>(lists.contexts.size() + 1);
    context.instructions = rows[i].self;
    context.share = share_of(rows[i].self, profile.coverage.attributed);
    context.share_error = margin(rows[i].error, profile.coverage.attributed);
    context.calls = rows[i].calls;
    std::vector<uint32_t> chain = context_chain(rows, static_cast<uint32_t>(i));
    if (std::ssize(chain) > kMostFrames) {
      chain.erase(chain.begin(), chain.end() - kMostFrames);
      context.frames.push_back({"", 0, "[outer callers left out]", "", 0});
    }
    for (uint32_t at : chain) {
      if (rows[at].kind == ContextKind::code)
        context.frames.push_back(place(rows[at].at));
      else
        context.frames.push_back({"", 0, context_label(rows[at].kind), "", 0});
    }
    lists.contexts.push_back(std::move(context));
  }
}

}  // namespace

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

namespace {

// The instructions are those of the samples, `share` of all: what they stand for is that part of
// the program's, where the samples tell.
RowTime row_time(const Profile& profile, uint64_t user_ns, uint64_t kernel_ns, double share,
                 bool tells) {
  const ProcessorTime& time = profile.time;
  RowTime row;
  if (!time.is_known() || time.seconds() <= 0) return row;
  row.user_s = 1e-9 * static_cast<double>(user_ns);
  row.kernel_s = 1e-9 * static_cast<double>(kernel_ns);
  row.share = row.user_s / time.seconds();
  row.error = time.error_of(row.share);
  const double executed = share * static_cast<double>(profile.coverage.instructions_total);
  if (executed > 0 && tells) row.cycles_per_insn = row.user_s * time.cycles_per_s / executed;
  return row;
}

// The first of one order, and behind them those of the other order that are not among them.
std::vector<size_t> first_of_both(std::vector<size_t> first, const std::vector<size_t>& others) {
  const size_t own = first.size();
  for (const size_t i : others) {
    const auto end = first.begin() + static_cast<ptrdiff_t>(own);
    if (std::find(first.begin(), end, i) == end) first.push_back(i);
  }
  return first;
}

// `functions`: pointers to those of the profile, or to those that were inlined.
template <typename Row>
std::vector<size_t> hottest_functions(const Profile& profile,
                                      const std::vector<const Row*>& functions, size_t limit) {
  const auto instructions = [](const Row* f) { return std::tuple(f->self, f->inclusive); };
  const auto time = [](const Row* f) { return std::tuple(f->user_ns + f->kernel_ns, f->self); };
  std::vector<size_t> order = hottest(functions, limit, instructions);
  if (!profile.time.is_known()) return order;
  order = first_of_both(hottest(functions, limit, time), order);
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return time(functions[b]) < time(functions[a]); });
  return order;
}

template <typename Row>
std::vector<const Row*> pointers_to(const std::vector<Row>& rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

// Functions, and what belongs to none.
template <typename PlaceOf, typename MarginOf>
void add_methods(const Profile& profile, size_t limit, PlaceOf place, MarginOf margin_of_met,
                 bool knows_speeds, Hotlists& lists) {
  const FunctionTable unnamed = unnamed_code(profile);
  std::vector<const Function*> all = pointers_to(profile.functions);
  for (const Function& row : unnamed) all.push_back(&row);
  for (const size_t i : hottest_functions(profile, all, limit)) {
    const Function& f = *all[i];
    const bool named = i < profile.functions.size();
    const Place at =
        named ? place(f.at) : Place{profile.modules[f.at.module].path, f.at.offset, f.name, "", 0};
    const double share = share_of(f.self, profile.coverage.attributed);
    // Errors are of functions.
    const Margin error = named || profile.confidence.exact
                             ? margin_of_met(f, profile.coverage.attributed)
                             : Margin();
    lists.methods.push_back({static_cast<uint32_t>(lists.methods.size() + 1), at, f.self,
                             f.inclusive, share, share_of(f.inclusive, profile.coverage.attributed),
                             f.invocations, f.loop_iterations, error,
                             row_time(profile, f.user_ns, f.kernel_ns, share,
                                      named && knows_speeds && is_certain(share, error))});
  }
}

template <typename MarginOf>
void add_inlined(const Profile& profile, size_t limit, MarginOf margin_of_met, bool knows_speeds,
                 Hotlists& lists) {
  const uint64_t all = profile.coverage.attributed;
  for (size_t i : hottest_functions(profile, pointers_to(profile.inlined), limit)) {
    const InlinedFunction& f = profile.inlined[i];
    const double share = share_of(f.self, all);
    const Margin error = margin_of_met(f, all);
    lists.inlined.push_back({static_cast<uint32_t>(lists.inlined.size() + 1),
                             {profile.modules[f.module].path, 0, f.name, f.file, f.line},
                             f.self,
                             f.inclusive,
                             share,
                             share_of(f.inclusive, all),
                             f.places.size(),
                             error,
                             row_time(profile, f.user_ns, f.kernel_ns, share,
                                      knows_speeds && is_certain(share, error))});
  }
}

std::vector<size_t> hottest_paths(const Profile& profile, const std::vector<uint64_t>& ns,
                                  size_t limit) {
  const PathTable& paths = profile.tables.paths;
  const auto instructions = [](const PathRow& p) { return std::tuple(p.count * p.insns, p.count); };
  std::vector<size_t> order = hottest(paths, limit, instructions);
  if (ns.empty()) return order;
  order = first_of_both(hottest(ns, limit, [](uint64_t n) { return n; }), order);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return ns[b] < ns[a]; });
  return order;
}

// The clock says where time was spent, and samples which of the paths through there were taken:
// what they do not know of that is not known of the time either.
double error_of_time(const RowTime& time, double share, const Margin& error) {
  double unknown = 1;
  if (error) unknown = *error > 0 ? *error / std::max(share, *error) : 0;
  return std::min(1.0, std::hypot(time.error, time.share * unknown));
}

template <typename PlaceOf, typename MarginOf>
void add_paths(const Profile& profile, size_t limit, PlaceOf place, MarginOf margin,
               bool knows_speeds, Hotlists& lists) {
  const std::vector<uint64_t> path_ns = profile.time.is_known() ? time_of_paths(profile)
                                                                : std::vector<uint64_t>();
  for (size_t i : hottest_paths(profile, path_ns, limit)) {
    const PathRow& p = profile.tables.paths[i];
    // Paths and blocks are weighted, and rounded, each by themselves.
    const double share = std::min(1.0, share_of(p.count * p.insns, profile.coverage.attributed));
    const Margin error = margin(p.error * p.insns, profile.coverage.attributed);
    HotPath path{static_cast<uint32_t>(lists.paths.size() + 1),
                 p.count,
                 share_of(p.count, profile.coverage.paths.executions),
                 p.count * p.insns,
                 share,
                 {},
                 {},
                 error,
                 path_ns.empty() ? RowTime()
                                 : row_time(profile, path_ns[i], 0, share,
                                            knows_speeds && is_certain(share, error))};
    path.time.error = error_of_time(path.time, share, error);
    if (p.from_count != 0) path.from = place(p.from);
    for (const CodeRef block : p.blocks) path.blocks.push_back(place(block));
    lists.paths.push_back(std::move(path));
  }
}

}  // namespace

DataPlace place_of(const Profile& profile, const DataRef& at) {
  return {at.in_module ? profile.modules[at.at.module].path : "", at.at.offset};
}

Margin margin_of(const Profile& profile, uint64_t error, uint64_t whole) {
  if (profile.confidence.exact) return 0;
  if (profile.confidence.groups < 2) return std::nullopt;
  return std::min(1.0, critical_value(profile.confidence.groups) * share_of(error, whole));
}

namespace {

template <typename PlaceOf, typename MarginOf>
void add_calls(const Profile& profile, size_t limit, PlaceOf place, MarginOf margin,
               Hotlists& lists) {
  const CallTable& calls = profile.tables.calls;
  uint64_t all = 0;
  for (const CallPair& c : calls) all += c.count;
  for (size_t i : hottest(calls, limit, [](const CallPair& c) { return c.count; })) {
    const CallPair& c = calls[i];
    lists.call_pairs.push_back({static_cast<uint32_t>(lists.call_pairs.size() + 1), place(c.site),
                                place(c.callee), c.indirect, c.count, share_of(c.count, all),
                                c.inclusive, margin(c.error, all)});
  }
}

template <typename PlaceOf, typename MarginOf>
void add_edges(const Profile& profile, size_t limit, PlaceOf place, MarginOf margin,
               Hotlists& lists) {
  const EdgeTable& edges = profile.tables.edges;
  uint64_t all = 0;
  for (const Edge& e : edges) all += e.count;
  for (size_t i : hottest(edges, limit, [](const Edge& e) { return e.count; })) {
    const Edge& e = edges[i];
    lists.edges.push_back({static_cast<uint32_t>(lists.edges.size() + 1), place(e.from),
                           place(e.to), e.kind, e.count, share_of(e.count, all),
                           margin(e.error, all)});
  }
}

// What rows are made with.
struct Lookups {
  LineLookup lines = {};
  InstructionLookup instructions = {};
  bool findings = false;  // nothing but their lists
};

Hotlists make_hotlists(const Profile& profile, size_t limit, const Lookups& lookups) {
  Hotlists lists;
  const Tables& t = profile.tables;
  const auto margin = [&](uint64_t error, uint64_t whole) {
    return margin_of(profile, error, whole);
  };
  // Nothing is known of what no sample met.
  const auto margin_of_met = [&](const auto& f, uint64_t whole) -> Margin {
    if (f.self == 0 && !profile.confidence.exact) return std::nullopt;
    const Margin error = margin(f.self_error, whole);
    const bool is_all = f.self == whole && error && !profile.confidence.exact;
    return is_all ? unseen_share(profile.confidence.groups) : error;
  };
  const LineLookup& lines = lookups.lines;
  const auto place = [&](CodeRef at) { return place_of(profile, lines, at); };
  const Coverage& coverage = profile.coverage;
  const bool knows_speeds = !coverage.assumed_speeds && !coverage.assumed_total &&
                            !uneven_runs(profile) &&
                            (!profile.time.is_known() || evidence_of(profile).enough);

  add_methods(profile, limit, place, margin_of_met, knows_speeds, lists);
  add_calls(profile, limit, place, margin, lists);
  add_edges(profile, limit, place, margin, lists);
  add_loads(profile, limit, place, lists);
  add_access_pairs(t.waste, limit, place, margin, lists.waste);
  add_sharing_of(profile, limit, place, lists);
  add_value_hotlists(profile, limit, lines, lookups.instructions, lists);
  if (!lookups.findings) {
    add_inlined(profile, limit, margin_of_met, knows_speeds, lists);
    add_contexts_of(profile, limit, place, margin, lists);
    add_paths(profile, limit, place, margin, knows_speeds, lists);
    add_memory(profile, limit, place, lists);
    add_access_pairs(t.hazards, limit, place, margin, lists.hazards);
    add_stream_hotlist(profile, limit, lines, lists);
    add_probe_hotlist(profile, limit, lines, lists);
    add_plugin_hotlist(profile, limit, lines, lists);
  }
  if (has_hidden_values(profile)) mark_values_hidden(lists);
  return lists;
}

}  // namespace

Hotlists compute_hotlists(const Profile& profile, size_t limit, const LineLookup& lines) {
  return make_hotlists(profile, limit, {.lines = lines});
}

Hotlists compute_finding_lists(const Profile& profile, size_t limit,
                               const InstructionLookup& instructions) {
  return make_hotlists(profile, limit, {.instructions = instructions, .findings = true});
}

bool has_whole_finding_lists(const Profile& profile) {
  const Hotlists& lists = profile.hotlists;
  const Tables& t = profile.tables;
  return lists.methods.size() >= profile.functions.size() &&
         lists.call_pairs.size() >= t.calls.size() && lists.edges.size() >= t.edges.size() &&
         lists.load_latency.size() >= t.latencies.size() && lists.waste.size() >= t.waste.size() &&
         lists.sharing.size() >= t.sharing.size() && lists.values.size() >= t.values.size() &&
         lists.arguments.size() >= t.arguments.size() &&
         lists.targets.size() >= indirect_branches(profile);
}

}  // namespace shadowprof::profile
