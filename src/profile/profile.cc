// SPDX-License-Identifier: MIT
#include "profile/profile.h"

#include <algorithm>
#include <tuple>

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

double Coverage::share() const {
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
      t.latency_pages, [](const LatencyPageRow& l) { return std::tuple(l.level, l.page); },
      [](LatencyPageRow& a, const LatencyPageRow& b) { a.count += b.count; });
  add_up(
      t.latency_values, [](const LatencyValueRow& l) { return std::tuple(l.level, l.value); },
      [](LatencyValueRow& a, const LatencyValueRow& b) { a.count += b.count; });
  add_up(
      t.cache_lines, [](const CacheLineRow& l) { return l.line; },
      [](CacheLineRow& a, const CacheLineRow& b) {
        a.loads += b.loads;
        a.stores += b.stores;
      });
  add_up(
      t.paths, [](const PathRow& p) -> const std::vector<CodeRef>& { return p.blocks; },
      [](PathRow& a, const PathRow& b) { add_paths(a, b); });
}

void add_tables(Profile& into, const Profile& from) {
  std::vector<uint32_t> module_in_into;
  for (const Module& m : from.modules)
    module_in_into.push_back(find_or_add_module(into.modules, m));
  add_tables(into, from, module_in_into);
}

void add_tables(Profile& into, const Profile& from, const std::vector<uint32_t>& module_in_into) {
  const auto moved = [&](CodeRef at) { return CodeRef{module_in_into[at.module], at.offset}; };

  std::vector<Piece> pieces = pieces_of(into.tables.blocks, into.tables.interruptions);
  for (Piece p : pieces_of(from.tables.blocks, from.tables.interruptions)) {
    p.at = moved(p.at);
    pieces.push_back(p);
  }
  CanonicalBlocks canonical = canonical_blocks(std::move(pieces), nullptr);
  into.tables.blocks = std::move(canonical.blocks);
  into.tables.interruptions = std::move(canonical.interruptions);

  for (const Edge& e : from.tables.edges)
    into.tables.edges.push_back({moved(e.from), moved(e.to), e.kind, e.count, e.error});
  for (const CallPair& c : from.tables.calls)
    into.tables.calls.push_back(
        {moved(c.site), moved(c.callee), c.indirect, c.count, c.inclusive, c.error});
  for (const Entry& e : from.tables.entries)
    into.tables.entries.push_back({moved(e.at), e.invocations, e.inclusive});
  const AddedContexts contexts =
      add_contexts(into.tables.contexts, from.tables.contexts, module_in_into);
  move_groups(into.context_groups, contexts.into);
  ContextGroups context_groups = from.context_groups;
  move_groups(context_groups, contexts.from);
  into.context_groups.insert(into.context_groups.end(),
                             std::make_move_iterator(context_groups.begin()),
                             std::make_move_iterator(context_groups.end()));
  for (ValueRow v : from.tables.values) {
    v.at = moved(v.at);
    if (v.has_context) v.context = moved(v.context);
    into.tables.values.push_back(std::move(v));
  }
  for (ArgumentRow a : from.tables.arguments) {
    a.site = moved(a.site);
    a.callee = moved(a.callee);
    into.tables.arguments.push_back(std::move(a));
  }
  for (LatencyRow l : from.tables.latencies) {
    l.at = moved(l.at);
    into.tables.latencies.push_back(std::move(l));
  }
  add_memory_tables(into.tables, from.tables, module_in_into);
  for (PathRow path : from.tables.paths) {
    if (path.from_count != 0) path.from = moved(path.from);
    for (CodeRef& block : path.blocks) block = moved(block);
    into.tables.paths.push_back(std::move(path));
  }
  normalise(into.tables);
  for (SampleGroup group : from.groups) {
    for (GroupedCode& code : group.code) code.at = moved(code.at);
    into.groups.push_back(std::move(group));
  }

  Coverage& c = into.coverage;
  c.samples += from.coverage.samples;
  c.instructions_profiled += from.coverage.instructions_profiled;
  c.instructions_total += from.coverage.instructions_total;
  c.estimated |= from.coverage.estimated;
  c.attributed += from.coverage.attributed;
  add_counts(c.ended, from.coverage.ended);
  add_counts(c.dropped, from.coverage.dropped);
  add_counts(c.events, from.coverage.events);
  add_path_counts(c.paths, from.coverage.paths);
  add_access_counts(c.accesses, from.coverage.accesses);
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
    if (bad_data(t.latency_pages[i].page)) return name_row("pages of loads", i);
  for (size_t i = 0; i < t.cache_lines.size(); i++)
    if (bad_data(t.cache_lines[i].line)) return name_row("cache lines", i);
  for (size_t i = 0; i < t.paths.size(); i++)
    if (bad(t.paths[i].from) ||
        std::any_of(t.paths[i].blocks.begin(), t.paths[i].blocks.end(), bad))
      return name_row("paths", i);
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
  return {};
}

}  // namespace shadowprof::profile
