// SPDX-License-Identifier: MIT
#include "profile/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace shadowprof::profile {
namespace {

constexpr double kNormal95 = 1.96;

// One of the two profiles: its counts on the scale of the whole run, and its places as keys that
// are the same in both.
class Side {
 public:
  // A place in code: an offset where both ran the same file, else a function and line.
  struct Key {
    uint32_t module = 0;
    bool exact = false;
    uint64_t where = 0;  // offset, or number of the function + 1 (0: none)
    uint32_t line = 0;
    auto operator<=>(const Key&) const = default;
  };

  Side(const Profile& profile, const SourceKnowledge& source, const FunctionMatch& match,
       const std::vector<uint32_t>& modules, const std::vector<uint32_t>& functions)
      : p(profile), source_(source), match_(match), modules_(modules), functions_(functions) {
    const Coverage& c = p.coverage;
    if (c.estimated && c.attributed != 0)
      scale_ = static_cast<double>(c.instructions_total) / static_cast<double>(c.attributed);
  }

  uint64_t scaled(uint64_t count) const {
    if (scale_ == 1) return count;
    return static_cast<uint64_t>(std::llround(static_cast<double>(count) * scale_));
  }
  uint64_t instructions() const {
    return p.coverage.estimated ? p.coverage.instructions_total : p.coverage.instructions_profiled;
  }
  double noise(uint64_t count) const {
    if (p.confidence.exact || !p.coverage.estimated) return 0;
    const double all = static_cast<double>(p.coverage.attributed);
    if (p.coverage.samples == 0 || all == 0) return std::numeric_limits<double>::infinity();
    const double share = std::min(1.0, static_cast<double>(count) / all);
    return kNormal95 * std::sqrt(share * (1 - share) / static_cast<double>(p.coverage.samples)) *
           all * scale_;
  }

  uint32_t number_of(size_t function) const { return functions_[function]; }
  Key key(CodeRef at) const {
    const uint32_t module = modules_[at.module];
    if (match_.identical[module]) return {module, true, at.offset, 0};
    const Function* f = find_function(p.functions, at);
    if (f == nullptr) return {module, false, 0, 0};
    const auto index = static_cast<size_t>(f - p.functions.data());
    return {module, false, uint64_t{functions_[index]} + 1, line(at).line};
  }
  Place place(CodeRef at) const {
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

  const Profile& p;

 private:
  SourceLine line(CodeRef at) const {
    if (source_.lines)
      if (auto known = source_.lines(at)) return *known;
    return {};
  }

  const SourceKnowledge& source_;
  const FunctionMatch& match_;
  const std::vector<uint32_t>& modules_;
  const std::vector<uint32_t>& functions_;
  double scale_ = 1;
};

uint64_t magnitude(int64_t delta) {
  return delta < 0 ? uint64_t{0} - static_cast<uint64_t>(delta) : static_cast<uint64_t>(delta);
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
  c.noise = std::hypot(c.noise, side.noise(f.self));
}

std::vector<FunctionChange> compare_functions(const Side& base, const Side& now, uint32_t count) {
  std::vector<FunctionChange> all(count);
  std::vector<bool> in_base(count);
  std::vector<bool> in_new(count);
  for (size_t i = 0; i < base.p.functions.size(); i++) {
    in_base[base.number_of(i)] = true;
    add_function(base, base.p.functions[i], &Change::base, all[base.number_of(i)]);
  }
  for (size_t i = 0; i < now.p.functions.size(); i++) {
    in_new[now.number_of(i)] = true;
    add_function(now, now.p.functions[i], &Change::now, all[now.number_of(i)]);
  }
  for (uint32_t i = 0; i < count; i++)
    all[i].presence = !in_base[i]  ? Presence::added
                      : !in_new[i] ? Presence::removed
                                   : Presence::both;
  const auto rank = [](const FunctionChange& c) {
    return std::tuple(~magnitude(c.self.delta()), ~magnitude(c.inclusive.delta()),
                      ~std::max(c.self.base, c.self.now), std::tie(c.at.module, c.at.function),
                      c.at.offset);
  };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return all;
}

// The largest effect first.
template <typename Row, typename Key, typename Effect>
std::vector<Row> ranked(std::map<Key, Row>&& all, Effect effect) {
  std::vector<std::pair<uint64_t, Row>> rows;
  for (auto& [key, row] : all) rows.emplace_back(effect(row), std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Row> result;
  for (auto& [e, row] : rows) result.push_back(std::move(row));
  return result;
}

using PairKey = std::tuple<Side::Key, Side::Key, int>;

std::vector<CallChange> compare_calls(const Side& base, const Side& now) {
  struct Open {
    CallChange change;
    CodeRef site;
    CodeRef callee;
    const Side* side = nullptr;
  };
  std::map<PairKey, Open> all;
  for (const Side* side : {&base, &now}) {
    const auto figure = side == &base ? &Change::base : &Change::now;
    for (const CallPair& c : side->p.tables.calls) {
      Open& o = all[{side->key(c.site), side->key(c.callee), c.indirect}];
      if (o.side != side) {
        o.site = c.site;
        o.callee = c.callee;
        o.side = side;
      }
      o.change.indirect = c.indirect;
      o.change.count.*figure += side->scaled(c.count);
      o.change.inclusive.*figure += side->scaled(c.inclusive);
    }
  }
  auto rows = ranked(std::move(all), [](const Open& o) {
    return o.change.count.delta() == 0
               ? 0
               : std::max(magnitude(o.change.count.delta()), magnitude(o.change.inclusive.delta()));
  });
  std::vector<CallChange> result;
  for (Open& o : rows) {
    o.change.site = o.side->place(o.site);
    o.change.callee = o.side->place(o.callee);
    result.push_back(std::move(o.change));
  }
  return result;
}

uint32_t block_insns(const BlockTable& blocks, CodeRef at) {
  const auto block =
      std::lower_bound(blocks.begin(), blocks.end(), at,
                       [](const BlockCount& b, CodeRef wanted) { return b.at < wanted; });
  return block != blocks.end() && block->at == at ? block->insns : 1;
}

std::vector<EdgeChange> compare_edges(const Side& base, const Side& now) {
  struct Open {
    EdgeChange change;
    CodeRef from;
    CodeRef to;
    const Side* side = nullptr;
  };
  std::map<PairKey, Open> all;
  for (const Side* side : {&base, &now}) {
    const auto figure = side == &base ? &Change::base : &Change::now;
    for (const Edge& e : side->p.tables.edges) {
      Open& o = all[{side->key(e.from), side->key(e.to), static_cast<int>(e.kind)}];
      if (o.side != side) {
        o.from = e.from;
        o.to = e.to;
        o.side = side;
      }
      o.change.kind = e.kind;
      const uint64_t count = side->scaled(e.count);
      o.change.count.*figure += count;
      o.change.instructions.*figure += count * block_insns(side->p.tables.blocks, e.to);
    }
  }
  auto rows = ranked(std::move(all), [](const Open& o) {
    return o.change.count.delta() == 0 ? 0 : magnitude(o.change.instructions.delta());
  });
  std::vector<EdgeChange> result;
  for (Open& o : rows) {
    o.change.from = o.side->place(o.from);
    o.change.to = o.side->place(o.to);
    result.push_back(std::move(o.change));
  }
  return result;
}

// A line of a file within a function: the file by its name, as directories differ between builds.
std::vector<LineChange> compare_lines(const Side& base, const SourceKnowledge& base_source,
                                      const Side& now, const SourceKnowledge& new_source) {
  if (base_source.costs.empty() || new_source.costs.empty()) return {};
  std::map<std::tuple<uint32_t, std::string, uint32_t>, LineChange> all;
  const auto add = [&](const Side& side, const SourceKnowledge& source, uint64_t Change::*figure) {
    for (const LineCost& cost : source.costs) {
      const std::string name = cost.file.substr(cost.file.rfind('/') + 1);
      LineChange& row = all[{side.number_of(cost.function), name, cost.line}];
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

Diff compare_profiles(const Profile& base, const SourceKnowledge& base_source, const Profile& now,
                      const SourceKnowledge& new_source) {
  const FunctionMatch match = match_functions(base, now);
  const Side before(base, base_source, match, match.base_module, match.base_function);
  const Side after(now, new_source, match, match.new_module, match.new_function);
  Diff diff;
  diff.exact = base.confidence.exact && now.confidence.exact;
  diff.instructions = {before.instructions(), after.instructions()};
  diff.calls = {all_calls(before), all_calls(after)};
  diff.syscalls = {all_syscalls(base), all_syscalls(now)};
  diff.functions = compare_functions(before, after, match.functions);
  diff.call_pairs = compare_calls(before, after);
  diff.edges = compare_edges(before, after);
  diff.lines = compare_lines(before, base_source, after, new_source);
  diff.syscall_names = compare_syscalls(base, now);
  return diff;
}

}  // namespace shadowprof::profile
