// SPDX-License-Identifier: MIT
#include "profile/profile.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "profile/file/canonical.h"
#include "profile/tables/append_rows.h"
#include "profile/tables/table_rows.h"

namespace shadowprof::profile {

const char* to_string(EdgeKind kind) {
  const auto i = static_cast<size_t>(kind);
  return i < kEdgeKinds ? kEdgeKindNames[i] : "?";
}

std::optional<EdgeKind> edge_kind_from(std::string_view name) {
  for (size_t i = 0; i < kEdgeKinds; i++)
    if (name == kEdgeKindNames[i]) return static_cast<EdgeKind>(i);
  return std::nullopt;
}

bool was_asked_for(const Run& run, std::string_view kind) {
  const auto asked = run.options.find("profile");
  return asked != run.options.end() &&
         ("," + asked->second + ",").find("," + std::string(kind) + ",") != std::string::npos;
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

void add_counts(Counts& into, const Counts& from) {
  for (const auto& [name, count] : from) into[name] += count;
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
  for_each_table([&](const auto& layout, auto member) {
    using Layout = std::remove_cvref_t<decltype(layout)>;
    if constexpr (Keyed<typename Layout::Row>) join_equal(layout, t.*member);
  });
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

  const AddedContexts contexts = add_contexts(to.contexts, new_rows.contexts, module_in_into);
  move_groups(into.context_groups, contexts.into);
  move_groups(from.context_groups, contexts.from);
  append_rows(into.context_groups, std::move(from.context_groups), [](auto&) {});

  const auto threads = static_cast<uint32_t>(into.threads.size());
  append_rows(into.threads, std::move(from.threads), [](auto&) {});
  for_each_table_by_thread([&](const auto&, auto table) {
    for (auto& row : new_rows.*table) row.thread += threads;
  });

  add_probes(into.probes, to.probes, from.probes, new_rows.probes);
  add_plugins(into.plugins, to.plugins, from.plugins, new_rows.plugins);

  for_each_table([&](const auto& layout, auto member) {
    using Row = typename std::remove_cvref_t<decltype(layout)>::Row;
    if constexpr (Keyed<Row>)
      append_rows(to.*member, std::move(new_rows.*member),
                  [&](Row& row) { renumber_modules(layout, row, module_in_into); });
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
  c.assumed_total |= from.coverage.assumed_total;
  c.attributed += from.coverage.attributed;
  for (const auto& counts : kCoverageCounts)
    add_counts(c.*counts.member, from.coverage.*counts.member);
  add_path_counts(c.paths, from.coverage.paths);
  add_access_counts(c.accesses, from.coverage.accesses);
  add_stream_counts(c.streams, from.coverage.streams);
  const std::vector<EndedEarly>& early = from.coverage.ended_early;
  c.ended_early.insert(c.ended_early.end(), early.begin(), early.end());
  std::ranges::sort(c.ended_early, {}, [](const EndedEarly& e) { return std::tie(e.at_s, e.why); });
  if (c.ended_early.size() > kMostEndedEarly) c.ended_early.resize(kMostEndedEarly);
}

namespace {

Status check_indices(const Profile& p) {
  const size_t modules = p.modules.size();
  Status result;
  const auto check = [&](const char* title, std::optional<size_t> row) {
    if (row && result)
      result = fail("row {} of the table of {} names a module that is not there ({} modules)", *row,
                    title, modules);
  };
  for_each_table([&](const auto& layout, auto member) {
    check(layout.title, row_without_module(layout, p.tables.*member, modules));
  });
  const auto function = std::ranges::find_if(
      p.functions, [&](const Function& f) { return f.at.module >= modules; });
  if (function != p.functions.end())
    check("functions", static_cast<size_t>(function - p.functions.begin()));
  const auto inlined = std::ranges::find_if(
      p.inlined, [&](const InlinedFunction& f) { return f.module >= modules; });
  if (inlined != p.inlined.end())
    check("inlined functions", static_cast<size_t>(inlined - p.inlined.begin()));
  return result;
}

template <typename Layout, typename Rows>
Status check_threads(const Layout& layout, const Rows& rows, size_t threads) {
  for (size_t i = 0; i < rows.size(); i++)
    if (rows[i].thread >= threads)
      return fail("row {} of the table of {} names a thread that is not there ({} threads)", i,
                  layout.title, threads);
  return {};
}

template <typename Row>
Status check_ends(const std::vector<Row>& rows, const char* name) {
  for (size_t i = 0; i < rows.size(); i++)
    if (rows[i].at.offset > std::numeric_limits<uint64_t>::max() - rows[i].size)
      return fail("row {} of the table of {} ends beyond all addresses", i, name);
  return {};
}

// What one row alone shows.
Status check_rows(const Profile& p) {
  const Tables& t = p.tables;
  SP_TRY(check_ends(t.blocks, "blocks"));
  SP_TRY(check_ends(p.functions, "functions"));
  for (size_t i = 0; i < t.probes.size(); i++) {
    const ProbeRow& row = t.probes[i];
    if (row.probe >= p.probes.size() || row.numbers.size() != p.probes[row.probe].columns.size())
      return fail("row {} of the table of probes is not one of its probe", i);
    if (!row.stack.empty() && p.probes[row.probe].stack == 0)
      return fail("row {} of the table of probes has a stack, and its probe has none", i);
  }
  for (size_t i = 0; i < t.plugins.size(); i++)
    if (!is_row_of_one(t.plugins[i], p.plugins))
      return fail("row {} of the table of plug-ins is not one of its plug-in", i);
  for (size_t i = 0; i < t.paths.size(); i++)
    if (t.paths[i].blocks.empty()) return fail("row {} of the table of paths has no blocks", i);
  for (size_t i = 0; i < t.latencies.size(); i++) {
    const LatencyRow& row = t.latencies[i];
    if (row.classes[static_cast<size_t>(LatencyClass::beyond)] > row.timed)
      return fail("row {} of the table of latencies has more loads beyond memory than timed ones",
                  i);
  }
  Status threads;
  for_each_table_by_thread([&](const auto& layout, auto table) {
    if (threads) threads = check_threads(layout, t.*table, p.threads.size());
  });
  return threads;
}

// Threads have no more than what was attributed, and each as much as its code.
Status check_thread_code(const Profile& p) {
  uint64_t sum = 0;
  std::vector<uint64_t> of_thread(p.threads.size());
  for (const ThreadCodeRow& row : p.tables.thread_code) {
    // As in check_contexts().
    if (row.instructions > p.coverage.attributed - sum)
      return fail("threads have more instructions than the {} that were attributed",
                  p.coverage.attributed);
    sum += row.instructions;
    of_thread[row.thread] += row.instructions;
  }
  for (size_t i = 0; i < p.threads.size(); i++)
    if (of_thread[i] != p.threads[i].instructions)
      return fail("thread {} has {} instructions, its code {}", i, p.threads[i].instructions,
                  of_thread[i]);
  return {};
}

bool can_be_added(const BlockTable& blocks) {
  double sum = 0;
  for (const BlockCount& b : blocks)
    sum += static_cast<double>(b.count) * static_cast<double>(b.insns);
  return sum < 0x1p63;
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
    // Looked at before it is added: the sum of damaged numbers may not fit.
    if (contexts[i].self > p.coverage.instructions_profiled - sum)
      return fail("more instructions are in contexts than the {} that were profiled",
                  p.coverage.instructions_profiled);
    sum += contexts[i].self;
  }
  return {};
}

// What was inlined is a part of what is known of inlining, and that of what was attributed.
Status check_inlined(const Profile& p) {
  std::vector<uint64_t> in_module(p.modules.size());
  for (size_t i = 0; i < p.inlined.size(); i++) {
    const InlinedFunction& f = p.inlined[i];
    uint64_t in_places = 0;
    for (const InlinedPlace& place : f.places) in_places += place.self;
    if (in_places != f.self)
      return fail("row {} of the table of inlined functions has {} instructions, its places {}", i,
                  f.self, in_places);
    in_module[f.module] += f.self;
  }
  uint64_t known = 0;
  for (size_t i = 0; i < p.modules.size(); i++) {
    known += p.modules[i].inlining_known;
    if (in_module[i] > p.modules[i].inlining_known)
      return fail("{} instructions of module {} are inlined, but of {} it is known", in_module[i],
                  i, p.modules[i].inlining_known);
  }
  if (known > p.coverage.attributed)
    return fail("of {} instructions it is known what was inlined, but {} were attributed", known,
                p.coverage.attributed);
  return {};
}

}  // namespace

Status check_consistency(const Profile& p) {
  SP_TRY(check_indices(p));
  SP_TRY(check_rows(p));
  SP_TRY(check_inlined(p));
  SP_TRY(check_interruptions(p.tables));
  SP_TRY(check_contexts(p));
  SP_TRY(check_thread_code(p));
  const Coverage& c = p.coverage;
  const bool has_blocks = !p.left_out.contains(kBlockLayout.name);
  if (!can_be_added(p.tables.blocks))
    return fail("more instructions are in the block table than can be counted");
  const uint64_t in_table = executed_instructions(p.tables.blocks, p.tables.interruptions);
  if (has_blocks && in_table != c.attributed)
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
