// SPDX-License-Identifier: MIT
#include "profile/profile.h"

#include <algorithm>
#include <tuple>

#include "profile/append_rows.h"
#include "profile/canonical.h"

namespace shadowprof::profile {
namespace {

constexpr const char* kEdgeKindNames[kEdgeKinds] = {
    "not_taken", "taken", "jump", "call", "indirect_jump", "indirect_call", "ret"};

// Sorts rows by key and adds the counts of equal ones to the first of them.
template <typename T, typename Key, typename Add>
void add_up(std::vector<T>& rows, Key key, Add add) {
  std::sort(rows.begin(), rows.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
  size_t last = 0;
  for (size_t i = 1; i < rows.size(); i++) {
    if (key(rows[last]) == key(rows[i]))
      add(rows[last], rows[i]);
    else if (++last != i)
      rows[last] = std::move(rows[i]);
  }
  if (!rows.empty()) rows.resize(last + 1);
}

void add_counts(std::map<std::string, uint64_t>& into,
                const std::map<std::string, uint64_t>& from) {
  for (const auto& [name, count] : from) into[name] += count;
}

}  // namespace

const char* to_string(EdgeKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kEdgeKinds ? kEdgeKindNames[i] : "?";
}

std::optional<EdgeKind> edge_kind_from(std::string_view name) {
  for (size_t i = 0; i < kEdgeKinds; i++)
    if (name == kEdgeKindNames[i]) return static_cast<EdgeKind>(i);
  return std::nullopt;
}

uint32_t find_or_add_module(ModuleTable& table, const Module& module) {
  for (uint32_t i = 0; i < table.size(); i++) {
    const Module& m = table[i];
    if (m.path != module.path || m.inode != module.inode || m.device != module.device) continue;
    if (module.inode != 0 || module.path == "[vdso]" || m.address == module.address) return i;
  }
  table.push_back(module);
  return static_cast<uint32_t>(table.size() - 1);
}

uint64_t executed_instructions(const BlockTable& blocks, const InterruptionTable& interruptions) {
  uint64_t sum = 0;
  for (const BlockCount& b : blocks) sum += b.count * b.insns;
  for (const Interruption& i : interruptions) sum -= i.count * (blocks[i.block].insns - i.executed);
  return sum;
}

std::optional<double> Coverage::share() const {
  if (!ended_early.empty()) return std::nullopt;
  if (instructions_total == 0) return 0;
  return static_cast<double>(instructions_profiled) / static_cast<double>(instructions_total);
}

uint64_t Coverage::dropped_instructions() const {
  uint64_t sum = 0;
  for (const auto& [reason, count] : dropped) sum += count;
  return sum;
}

void normalise(Tables& t) {
  add_up(
      t.edges, [](const Edge& e) { return std::tuple(e.from, e.to, e.kind); },
      [](Edge& a, const Edge& b) {
        a.count += b.count;
        a.error = added_error(a.error, b.error);
      });
  add_up(
      t.calls, [](const CallPair& c) { return std::tuple(c.site, c.callee, c.indirect); },
      [](CallPair& a, const CallPair& b) {
        a.count += b.count;
        a.inclusive += b.inclusive;
        a.error = added_error(a.error, b.error);
      });
  add_up(
      t.entries, [](const Entry& e) { return e.at; },
      [](Entry& a, const Entry& b) {
        a.invocations += b.invocations;
        a.inclusive += b.inclusive;
      });
  add_up(
      t.values,
      [](const ValueRow& v) { return std::tuple(v.at, v.has_context, v.context, v.part); },
      [](ValueRow& a, const ValueRow& b) { add_figures(a.figures, b.figures); });
  add_up(
      t.arguments, [](const ArgumentRow& a) { return std::tuple(a.site, a.callee, a.argument); },
      [](ArgumentRow& a, const ArgumentRow& b) { add_figures(a.figures, b.figures); });
  add_up(
      t.latencies, [](const LatencyRow& l) { return l.at; },
      [](LatencyRow& a, const LatencyRow& b) { add_latencies(a, b); });
  add_up(
      t.latency_pages, [](const LatencyPageRow& l) { return std::tuple(l.level, l.load, l.page); },
      [](LatencyPageRow& a, const LatencyPageRow& b) { a.count += b.count; });
  add_up(
      t.latency_values, [](const LatencyValueRow& l) { return std::tuple(l.level, l.load, l.value); },
      [](LatencyValueRow& a, const LatencyValueRow& b) { a.count += b.count; });
  add_up(
      t.cache_lines, [](const CacheLineRow& l) { return l.line; },
      [](CacheLineRow& a, const CacheLineRow& b) {
        a.loads += b.loads;
        a.stores += b.stores;
      });
  normalise_time(t.time);
  add_up(
      t.paths, [](const PathRow& p) -> const std::vector<CodeRef>& { return p.blocks; },
      [](PathRow& a, const PathRow& b) { add_paths(a, b); });
}

void add_tables(Profile& into, Profile& from) {
  std::vector<uint32_t> module_in_into;
  for (const Module& m : from.modules)
    module_in_into.push_back(find_or_add_module(into.modules, m));
  add_tables(into, from, module_in_into);
}

void add_tables(Profile& into, Profile& from, const std::vector<uint32_t>& module_in_into) {
  const auto move = [&](CodeRef& at) { at.module = module_in_into[at.module]; };
  Tables& to = into.tables;
  Tables& new_rows = from.tables;

  std::vector<Piece> pieces = pieces_of(to.blocks, to.interruptions);
  append_rows(pieces, pieces_of(new_rows.blocks, new_rows.interruptions),
              [&](Piece& p) { move(p.at); });
  CanonicalBlocks canonical = canonical_blocks(std::move(pieces), nullptr);
  to.blocks = std::move(canonical.blocks);
  to.interruptions = std::move(canonical.interruptions);

  append_rows(to.edges, std::move(new_rows.edges), [&](Edge& e) {
    move(e.from);
    move(e.to);
  });
  append_rows(to.calls, std::move(new_rows.calls), [&](CallPair& c) {
    move(c.site);
    move(c.callee);
  });
  append_rows(to.entries, std::move(new_rows.entries), [&](Entry& e) { move(e.at); });
  const AddedContexts contexts = add_contexts(to.contexts, new_rows.contexts, module_in_into);
  move_groups(into.context_groups, contexts.into);
  move_groups(from.context_groups, contexts.from);
  append_rows(into.context_groups, std::move(from.context_groups), [](auto&) {});
  append_rows(to.values, std::move(new_rows.values), [&](ValueRow& v) {
    move(v.at);
    if (v.has_context) move(v.context);
  });
  append_rows(to.arguments, std::move(new_rows.arguments), [&](ArgumentRow& a) {
    move(a.site);
    move(a.callee);
  });
  append_rows(to.latencies, std::move(new_rows.latencies), [&](LatencyRow& l) { move(l.at); });
  add_memory_tables(to, new_rows, module_in_into);
  append_rows(to.paths, std::move(new_rows.paths), [&](PathRow& path) {
    if (path.from_count != 0) move(path.from);
    for (CodeRef& block : path.blocks) move(block);
  });
  const auto threads = static_cast<uint32_t>(into.threads.size());
  append_rows(into.threads, std::move(from.threads), [](auto&) {});
  append_rows(to.time, std::move(new_rows.time), [&](TimeRow& r) {
    move(r.at);
    r.thread += threads;
  });
  normalise(to);
  append_rows(into.groups, std::move(from.groups), [&](SampleGroup& group) {
    for (GroupedCode& code : group.code) move(code.at);
  });

  Coverage& c = into.coverage;
  c.samples += from.coverage.samples;
  c.instructions_profiled += from.coverage.instructions_profiled;
  c.instructions_total += from.coverage.instructions_total;
  c.estimated |= from.coverage.estimated;
  c.assumed_speeds |= from.coverage.assumed_speeds;
  c.attributed += from.coverage.attributed;
  add_counts(c.ended, from.coverage.ended);
  add_counts(c.dropped, from.coverage.dropped);
  add_counts(c.events, from.coverage.events);
  add_path_counts(c.paths, from.coverage.paths);
  add_access_counts(c.accesses, from.coverage.accesses);
  const std::vector<EndedEarly>& early = from.coverage.ended_early;
  c.ended_early.insert(c.ended_early.end(), early.begin(), early.end());
  std::ranges::sort(c.ended_early, {}, [](const EndedEarly& e) { return std::tie(e.at_s, e.why); });
  if (c.ended_early.size() > kMostEndedEarly) c.ended_early.resize(kMostEndedEarly);
}

namespace {

Status check_indices(const Profile& p) {
  const size_t modules = p.modules.size();
  const auto bad = [&](CodeRef at) { return at.module >= modules; };
  const auto name_row = [&](const char* table, size_t row) {
    return fail("row {} of the table of {} names a module that is not there ({} modules)", row,
                table, modules);
  };
  const Tables& t = p.tables;
  for (size_t i = 0; i < t.blocks.size(); i++)
    if (bad(t.blocks[i].at)) return name_row("blocks", i);
  for (size_t i = 0; i < t.edges.size(); i++)
    if (bad(t.edges[i].from) || bad(t.edges[i].to)) return name_row("edges", i);
  for (size_t i = 0; i < t.calls.size(); i++)
    if (bad(t.calls[i].site) || bad(t.calls[i].callee)) return name_row("calls", i);
  for (size_t i = 0; i < t.entries.size(); i++)
    if (bad(t.entries[i].at)) return name_row("entries", i);
  for (size_t i = 0; i < t.contexts.size(); i++)
    if (t.contexts[i].kind == ContextKind::code && bad(t.contexts[i].at))
      return name_row("contexts", i);
  for (size_t i = 0; i < t.values.size(); i++)
    if (bad(t.values[i].at) || bad(t.values[i].context)) return name_row("values", i);
  for (size_t i = 0; i < t.arguments.size(); i++)
    if (bad(t.arguments[i].site) || bad(t.arguments[i].callee)) return name_row("arguments", i);
  for (size_t i = 0; i < t.latencies.size(); i++)
    if (bad(t.latencies[i].at)) return name_row("latencies", i);
  const auto bad_data = [&](const DataRef& ref) { return ref.in_module && bad(ref.at); };
  for (size_t i = 0; i < t.latency_pages.size(); i++)
    if (bad_data(t.latency_pages[i].page) ||
        (t.latency_pages[i].load && bad(*t.latency_pages[i].load)))
      return name_row("pages of loads", i);
  for (size_t i = 0; i < t.latency_values.size(); i++)
    if (t.latency_values[i].load && bad(*t.latency_values[i].load))
      return name_row("values of loads", i);
  for (size_t i = 0; i < t.cache_lines.size(); i++)
    if (bad_data(t.cache_lines[i].line)) return name_row("cache lines", i);
  for (size_t i = 0; i < t.paths.size(); i++)
    if (bad(t.paths[i].from) ||
        std::any_of(t.paths[i].blocks.begin(), t.paths[i].blocks.end(), bad))
      return name_row("paths", i);
  for (size_t i = 0; i < t.paths.size(); i++)
    if (t.paths[i].blocks.empty()) return fail("row {} of the table of paths has no blocks", i);
  for (size_t i = 0; i < t.time.size(); i++) {
    if (bad(t.time[i].at)) return name_row("processor time", i);
    if (t.time[i].thread >= p.threads.size())
      return fail("row {} of the table of processor time names a thread that is not there ({} threads)",
                  i, p.threads.size());
  }
  for (size_t i = 0; i < p.functions.size(); i++)
    if (bad(p.functions[i].at)) return name_row("functions", i);
  return {};
}

Status check_interruptions(const Tables& t) {
  std::vector<uint64_t> interrupted(t.blocks.size(), 0);
  for (size_t i = 0; i < t.interruptions.size(); i++) {
    const Interruption& x = t.interruptions[i];
    if (x.block >= t.blocks.size())
      return fail("row {} of the table of interruptions names block {} of {}", i, x.block,
                  t.blocks.size());
    const BlockCount& b = t.blocks[x.block];
    const uint64_t left = b.count - interrupted[x.block];
    if (x.executed >= b.insns || x.count > left)
      return fail("row {} of the table of interruptions does not fit its block", i);
    interrupted[x.block] += x.count;
  }
  return {};
}

Status check_contexts(const Profile& p) {
  uint64_t sum = 0;
  const ContextTable& contexts = p.tables.contexts;
  for (size_t i = 0; i < contexts.size(); i++) {
    if (contexts[i].parent != kNoContext && contexts[i].parent >= i)
      return fail("row {} of the table of contexts stands before its caller", i);
    sum += contexts[i].self;
  }
  if (sum > p.coverage.instructions_profiled)
    return fail("{} instructions are in contexts, but {} were profiled", sum,
                p.coverage.instructions_profiled);
  return {};
}

}  // namespace

Status check_consistency(const Profile& p) {
  SP_TRY(check_indices(p));
  SP_TRY(check_interruptions(p.tables));
  SP_TRY(check_contexts(p));
  const Coverage& c = p.coverage;
  const uint64_t in_table = executed_instructions(p.tables.blocks, p.tables.interruptions);
  if (in_table != c.attributed)
    return fail("{} instructions are in the block table, but {} were attributed", in_table,
                c.attributed);
  if (c.attributed + c.dropped_instructions() != c.instructions_profiled)
    return fail("{} instructions attributed and {} dropped are not the {} profiled", c.attributed,
                c.dropped_instructions(), c.instructions_profiled);
  if (!c.estimated && c.instructions_profiled > c.instructions_total)
    return fail("{} instructions profiled of {} executed", c.instructions_profiled,
                c.instructions_total);
  if (p.confidence.exact && (c.estimated || c.instructions_profiled != c.instructions_total))
    return fail("an exact profile must cover all {} instructions, not {}", c.instructions_total,
                c.instructions_profiled);
  if (p.confidence.exact && !c.ended_early.empty())
    return fail("an exact profile cannot have ended early");
  return {};
}

}  // namespace shadowprof::profile
