// SPDX-License-Identifier: MIT
#include "profile/compare/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/file_name.h"
#include "profile/compare/diff_reasons.h"
#include "profile/compare/diff_side.h"
#include "profile/evidence.h"
#include "profile/hidden_values.h"

namespace shadowprof::profile {
namespace {

// Lines of the file that a function begins in count from there.
std::pair<bool, uint32_t> relative_line(const Function& f, const SourceLine& known) {
  const bool relative = f.line != 0 && known.line >= f.line && known.file == f.file;
  return {relative, known.line - (relative ? f.line : 0)};
}

Place function_place(const Side& side, const Function& f) {
  return {side.p.modules[f.at.module].path, f.at.offset, f.name, f.file, f.line};
}

// Adds `f`'s figures to the side of the change that `figure` selects.
void add_function(const Side& side, const Function& f, uint64_t Change::*figure,
                  FunctionChange& c) {
  c.at = function_place(side, f);
  c.linkage_name = f.linkage_name.empty() ? f.name : f.linkage_name;
  c.self.*figure += side.scaled(f.self);
  c.inclusive.*figure += side.scaled(f.inclusive);
  c.invocations.*figure += side.scaled(f.invocations);
  c.loop_iterations.*figure += side.scaled(f.loop_iterations);
}

std::vector<FunctionChange> compare_functions(const Side& base, const Side& now, uint32_t count) {
  std::vector<FunctionChange> all(count);
  std::vector<ChangeError> errors(count);
  std::vector<bool> in_base(count);
  std::vector<bool> in_new(count);
  for (const Side* side : {&base, &now}) {
    for (size_t i = 0; i < side->p.functions.size(); i++) {
      const Function& f = side->p.functions[i];
      const uint32_t number = side->number_of(i);
      (side == &base ? in_base : in_new)[number] = true;
      add_function(*side, f, side == &base ? &Change::base : &Change::now, all[number]);
      errors[number].add(*side, static_cast<double>(f.self_error), base);
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    all[i].number = i;
    all[i].error = errors[i].of_difference();
    all[i].presence = !in_base[i]  ? Presence::added
                      : !in_new[i] ? Presence::removed
                                   : Presence::both;
  }
  const auto rank = [](const FunctionChange& c) {
    return std::tuple(~magnitude(c.self.delta()), ~magnitude(c.inclusive.delta()),
                      ~std::max(c.self.base, c.self.now), std::tie(c.at.module, c.at.function),
                      c.at.offset);
  };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return all;
}

// What call pairs and edges have in common.
struct Transfer {
  CodeRef from;
  CodeRef to;
  EdgeKind kind;
  uint64_t count;
  uint64_t instructions;
  uint64_t error;
};

Transfer transfer_of(const Profile&, const CallPair& c) {
  return {c.site,  c.callee,    c.indirect ? EdgeKind::indirect_call : EdgeKind::call,
          c.count, c.inclusive, c.error};
}

uint32_t block_insns(const BlockTable& blocks, CodeRef at) {
  const auto block =
      std::lower_bound(blocks.begin(), blocks.end(), at,
                       [](const BlockCount& b, CodeRef wanted) { return b.at < wanted; });
  return block != blocks.end() && block->at == at ? block->insns : 1;
}

Transfer transfer_of(const Profile& p, const Edge& e) {
  return {e.from, e.to, e.kind, e.count, e.count * block_insns(p.tables.blocks, e.to), e.error};
}

template <typename Table>
std::vector<TransferChange> compare_transfers(const Side& base, const Side& now,
                                              Table Tables::*table) {
  struct Open {
    TransferChange change;
    CodeRef from;
    CodeRef to;
    const Side* side = nullptr;
    ChangeError error;
  };
  std::map<std::tuple<Side::Key, Side::Key, EdgeKind>, Open> all;
  for (const Side* side : {&base, &now}) {
    const auto figure = side == &base ? &Change::base : &Change::now;
    for (const auto& row : side->p.tables.*table) {
      const Transfer t = transfer_of(side->p, row);
      Open& o = all[{side->key(t.from), side->key(t.to), t.kind}];
      if (o.side != side) {
        o.from = t.from;
        o.to = t.to;
        o.side = side;
      }
      o.change.kind = t.kind;
      o.change.count.*figure += side->scaled(t.count);
      o.change.instructions.*figure += side->scaled(t.instructions);
      o.error.add(*side, static_cast<double>(t.error), base);
    }
  }
  auto rows = ranked(std::move(all), [](const Open& o) {
    return o.change.count.delta() == 0 ? 0 : magnitude(o.change.instructions.delta());
  });
  std::vector<TransferChange> result;
  for (Open& o : rows) {
    o.change.error = o.error.of_difference();
    o.change.from = o.side->place(o.from);
    o.change.to = o.side->place(o.to);
    o.change.from_function = o.side->function_number(o.from);
    o.change.to_function = o.side->function_number(o.to);
    result.push_back(std::move(o.change));
  }
  return result;
}

// A line of a file within a function: the file by its name, as directories differ between builds.
std::vector<LineChange> compare_lines(const Side& base, const SourceKnowledge& base_source,
                                      const Side& now, const SourceKnowledge& new_source) {
  if (base_source.costs.empty() || new_source.costs.empty()) return {};
  std::map<std::tuple<uint32_t, std::string, bool, uint32_t>, LineChange> all;
  const auto add = [&](const Side& side, const SourceKnowledge& source, uint64_t Change::*figure) {
    for (const LineCost& cost : source.costs) {
      const std::string name = file_name(cost.file);
      const Function& f = side.p.functions[cost.function];
      const auto [relative, line] = relative_line(f, {cost.file, cost.line});
      LineChange& row = all[{side.number_of(cost.function), name, relative, line}];
      row.number = side.number_of(cost.function);
      row.function = side.p.functions[cost.function].name;
      row.file = cost.file;
      row.line = cost.line;
      row.instructions.*figure += side.scaled(cost.instructions);
    }
  };
  add(base, base_source, &Change::base);
  add(now, new_source, &Change::now);
  return ranked(std::move(all),
                [](const LineChange& l) { return magnitude(l.instructions.delta()); });
}

std::vector<SyscallChange> compare_syscalls(const Profile& base, const Profile& now) {
  std::map<std::string, SyscallChange> all;
  for (const auto& [name, s] : base.syscalls.by_name) all[name].count.base = s.count;
  for (const auto& [name, s] : now.syscalls.by_name) all[name].count.now = s.count;
  for (auto& [name, row] : all) row.name = name;
  return ranked(std::move(all), [](const SyscallChange& s) { return magnitude(s.count.delta()); });
}

uint64_t all_calls(const Side& side) {
  uint64_t sum = 0;
  for (const CallPair& c : side.p.tables.calls) sum += c.count;
  return side.scaled(sum);
}

uint64_t all_syscalls(const Profile& p) {
  uint64_t sum = 0;
  for (const auto& [name, s] : p.syscalls.by_name) sum += s.count;
  return sum;
}

}  // namespace

Side::Key Side::key(CodeRef at) const {
  if (match_.identical[modules_[at.module]])
    return {.module = modules_[at.module], .exact = true, .where = at.offset};
  Key key = function_key(at);
  if (const Function* f = find_function(p.functions, at))
    std::tie(key.relative, key.line) = relative_line(*f, line(at));
  return key;
}

Side::Key Side::function_key(CodeRef at) const {
  Key key;
  key.module = modules_[at.module];
  key.exact = match_.identical[key.module];
  const uint32_t function = function_number(at);
  key.relative = function != kNoFunction;  // else an offset of a file could be a function's number
  if (key.relative)
    key.where = uint64_t{function} + 1;
  else if (key.exact)
    key.where = at.offset;
  return key;
}

uint32_t Side::function_number(CodeRef at) const {
  const Function* f = find_function(p.functions, at);
  return f == nullptr ? kNoFunction : number_of(static_cast<size_t>(f - p.functions.data()));
}

Place Side::place(CodeRef at) const {
  Place place;
  place.module = p.modules[at.module].path;
  place.offset = at.offset;
  const SourceLine known = line(at);
  place.file = known.file;
  place.line = known.line;
  if (const Function* f = find_function(p.functions, at)) {
    place.function = f->name;
    if (place.file.empty() && f->at == at) {
      place.file = f->file;
      place.line = f->line;
    }
  }
  return place;
}

SourceLine Side::line(CodeRef at) const {
  if (source_.lines)
    if (auto known = source_.lines(at)) return *known;
  return {};
}

int64_t Change::delta() const {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (now >= base) return static_cast<int64_t>(std::min(now - base, kMost));
  return -static_cast<int64_t>(std::min(base - now, kMost));
}

double Change::ratio() const {
  if (base == now) return 0;
  if (base == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(delta()) / static_cast<double>(base);
}

const char* to_string(Presence presence) {
  switch (presence) {
    case Presence::added:
      return "added";
    case Presence::removed:
      return "removed";
    case Presence::both:
      break;
  }
  return "both";
}

// Fewer groups of the two; 0 where a sampled profile does not know its errors.
uint32_t groups_of(const Profile& base, const Profile& now) {
  uint32_t groups = std::numeric_limits<uint32_t>::max();
  for (const Profile* p : {&base, &now})
    if (!p->confidence.exact) groups = std::min(groups, p->confidence.groups);
  return groups == std::numeric_limits<uint32_t>::max() ? 0 : groups;
}

Diff compare_profiles(const Profile& base, const SourceKnowledge& base_source, const Profile& now,
                      const SourceKnowledge& new_source) {
  Diff diff;
  diff.exact = base.confidence.exact && now.confidence.exact;
  diff.groups = groups_of(base, now);
  for (const Profile* p : {&base, &now}) {
    diff.estimates_inclusive |= p->run.options.contains("inclusive");
    diff.knows_totals &= !p->coverage.assumed_total;
  }
  diff.base_incomplete = why_incomplete(base).value_or("");
  diff.new_incomplete = why_incomplete(now).value_or("");
  const auto total = [](const Profile& p) {
    return p.coverage.estimated ? p.coverage.instructions_total : p.coverage.instructions_profiled;
  };
  diff.instructions = {total(base), total(now)};
  const auto scale = [&](const Profile& p) {
    if (!base.coverage.estimated && !now.coverage.estimated) return 1.0;
    if (p.coverage.attributed == 0) return 1.0;
    return static_cast<double>(diff.instructions.base) / static_cast<double>(p.coverage.attributed);
  };
  const FunctionMatch match = match_functions(base, now);
  const Side before(base, base_source, match, match.base_module, match.base_function, scale(base));
  const Side after(now, new_source, match, match.new_module, match.new_function, scale(now));
  const auto both_have = [&](auto Tables::*table) {
    return !(base.tables.*table).empty() && !(now.tables.*table).empty();
  };
  // A program may have none. A baseline has no such table, but functions with calls and loops.
  const auto know = [&](const char* kind, const auto& layout, auto Tables::*table) {
    return std::ranges::all_of(std::array{&base, &now}, [&](const Profile* p) {
      return !(p->tables.*table).empty() || p->left_out.contains(layout.name) ||
             was_asked_for(p->run, kind);
    });
  };
  diff.has_calls = know("call", kCallLayout, &Tables::calls);
  diff.has_edges = know("edge", kEdgeLayout, &Tables::edges);
  diff.has_paths = both_have(&Tables::paths);
  diff.hides_values = has_hidden_values(base) || has_hidden_values(now);
  diff.has_values = both_have(&Tables::values) && !diff.hides_values;
  diff.has_loads = both_have(&Tables::latencies);
  diff.has_contexts = both_have(&Tables::contexts);
  diff.calls = {all_calls(before), all_calls(after)};
  diff.syscalls = {all_syscalls(base), all_syscalls(now)};
  diff.functions = compare_functions(before, after, match.functions);
  diff.has_inlined = knows_inlining(base) && knows_inlining(now);
  if (diff.has_inlined) diff.inlined = compare_inlined(before, after);
  diff.call_pairs = compare_transfers(before, after, &Tables::calls);
  const auto left_out = [&](const char* table) {
    return base.left_out.contains(table) || now.left_out.contains(table);
  };
  if (!left_out(kEdgeLayout.name)) diff.edges = compare_transfers(before, after, &Tables::edges);
  if (diff.has_paths) diff.paths = compare_paths(before, after);
  if (diff.has_values) diff.values = compare_values(before, after);
  if (diff.has_loads) diff.loads = compare_loads(before, after);
  if (diff.has_contexts) diff.contexts = compare_contexts(before, after);
  diff.lines = compare_lines(before, base_source, after, new_source);
  diff.syscall_names = compare_syscalls(base, now);
  name_reasons(base, now, diff);
  return diff;
}

}  // namespace shadowprof::profile
