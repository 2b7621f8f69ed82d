// SPDX-License-Identifier: MIT
//
// Paths, values and loads of two profiles.
#include <optional>

#include "profile/compare/diff_side.h"

namespace shadowprof::profile {
namespace {

using PlaceKey = Side::Key;
using Figure = uint64_t Change::*;

constexpr double kMillion = 1e6;

uint64_t millionths(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return as_count(static_cast<double>(part) / static_cast<double>(whole) * kMillion);
}

// Where blocks are known by their lines, a compiler may make one block of two of a line, or two of
// one: such repetitions are one element.
std::vector<PlaceKey> path_key(const Side& side, const PathRow& row) {
  std::vector<PlaceKey> key;
  for (const CodeRef block : row.blocks) {
    const PlaceKey k = side.key(block);
    if (key.empty() || k.exact || key.back() != k) key.push_back(k);
  }
  return key;
}

// Where a path begins: code that has no line (of computed jumps, for one) is said to be at the
// first line after it in the same function.
void describe_path(const Side& side, const PathRow& row, PathChange& change) {
  change.blocks = row.blocks.size();
  change.at = side.place(row.blocks.front());
  for (const CodeRef block : row.blocks) {
    Place place = side.place(block);
    if (change.at.line == 0 && place.line != 0 && place.function == change.at.function)
      change.at = place;
    SourceLine line{place.file, place.line};
    if (line.line != 0 && (change.lines.empty() || change.lines.back().line != line.line ||
                           change.lines.back().file != line.file))
      change.lines.push_back(std::move(line));
    if (change.functions.empty() || change.functions.back().function != place.function)
      change.functions.push_back(std::move(place));
  }
}

// Instructions that compute values, by place and, where the numbers agree, by their order there.
struct ValueKey {
  PlaceKey at;
  std::optional<PlaceKey> context;
  ValuePart part = ValuePart::result;
  ValueType type = ValueType::integer;  // the same bits are another value
  size_t number = 0;                    // of those with the same place
  auto operator<=>(const ValueKey&) const = default;
};

using RowsOfPlace = std::map<ValueKey, std::vector<const ValueRow*>>;

RowsOfPlace values_by_place(const Side& side) {
  RowsOfPlace all;
  for (const ValueRow& row : side.p.tables.values) {
    if (row.constant) continue;
    ValueKey key{side.key(row.at), {}, row.part, row.type, 0};
    if (row.has_context) key.context = side.key(row.context);
    all[key].push_back(&row);
  }
  return all;
}

struct OpenValue {
  const Side* side = nullptr;
  const ValueRow* row = nullptr;  // the first; of the new profile, if it is there
  ValueFigures base;
  ValueFigures now;
};

void add_rows(const Side& side, const std::vector<const ValueRow*>& rows, bool apart,
              ValueFigures OpenValue::*figures, ValueKey key, std::map<ValueKey, OpenValue>& all) {
  for (size_t i = 0; i < rows.size(); i++) {
    key.number = apart ? i : 0;
    OpenValue& open = all[key];
    if (open.side != &side) {
      open.side = &side;
      open.row = rows[i];
    }
    if ((open.*figures).count == 0)
      open.*figures = rows[i]->figures;
    else
      add_figures(open.*figures, rows[i]->figures);
  }
}

uint64_t count_of(const ValueFigures& f, uint64_t value) {
  for (const ValueCount& v : f.top)
    if (v.value == value) return v.count;
  return 0;
}

}  // namespace

namespace {

// What the base has no row of it may have executed up to its error bound.
template <typename Paths>
void allow_for_unseen(const Side& base, Paths& all) {
  const uint64_t unseen = base.p.coverage.paths.error_bound;
  const auto allow = [](Change& change, uint64_t most) {
    if (change.now > change.base) change.base += std::min(change.now - change.base, most);
  };
  for (auto& [key, open] : all) {
    allow(open.change.count, base.scaled(unseen));
    allow(open.change.instructions, base.scaled(unseen * open.row->insns));
  }
}

}  // namespace

std::vector<PathChange> compare_paths(const Side& base, const Side& now) {
  struct Open {
    PathChange change;
    const PathRow* row = nullptr;
    const Side* side = nullptr;
    ChangeError error;
  };
  std::map<std::vector<PlaceKey>, Open> all;
  for (const Side* side : {&base, &now}) {
    const Figure figure = side == &base ? &Change::base : &Change::now;
    for (const PathRow& row : side->p.tables.paths) {
      Open& o = all[path_key(*side, row)];
      if (o.side != side) {
        o.side = side;
        o.row = &row;
      }
      o.change.count.*figure += side->scaled(row.count);
      o.change.instructions.*figure += side->scaled(row.count * row.insns);
      o.error.add(*side, static_cast<double>(row.error) * static_cast<double>(row.insns), base);
    }
  }
  allow_for_unseen(base, all);
  auto rows = ranked(std::move(all),
                     [](const Open& o) { return magnitude(o.change.instructions.delta()); });
  std::vector<PathChange> result;
  for (Open& o : rows) {
    o.change.error = o.error.of_difference();
    describe_path(*o.side, *o.row, o.change);
    result.push_back(std::move(o.change));
  }
  return result;
}

uint64_t ValueChange::effect() const {
  return as_count(static_cast<double>(magnitude(invariance.delta())) / kMillion *
                  static_cast<double>(std::max(executions.base, executions.now)));
}

namespace {

// The standard error of the hottest value's share.
double share_error(const ValueFigures& f) {
  return f.count == 0 ? 0 : static_cast<double>(f.top_error) / static_cast<double>(f.count);
}

}  // namespace

std::vector<ValueChange> compare_values(const Side& base, const Side& now) {
  const RowsOfPlace before = values_by_place(base);
  const RowsOfPlace after = values_by_place(now);
  std::map<ValueKey, OpenValue> all;
  const auto as_many = [](const RowsOfPlace& there, const ValueKey& key, size_t rows) {
    const auto found = there.find(key);
    return found == there.end() || found->second.size() == rows;
  };
  for (const auto& [key, rows] : before)
    add_rows(base, rows, as_many(after, key, rows.size()), &OpenValue::base, key, all);
  for (const auto& [key, rows] : after)
    add_rows(now, rows, as_many(before, key, rows.size()), &OpenValue::now, key, all);

  const bool base_is_part = base.p.left_out.contains(kValueLayout.name);
  std::map<ValueKey, ValueChange> changes;
  for (const auto& [key, open] : all) {
    if (base_is_part && open.base.count == 0) continue;
    const ValueFigures& first = open.base.count != 0 ? open.base : open.now;
    if (first.top.empty()) continue;
    ValueChange& change = changes[key];
    change.value = first.top[0].value;
    change.type = open.row->type;
    change.at = open.side->place(open.row->at);
    change.instruction = open.row->text;
    change.executions = {base.scaled(open.base.count), now.scaled(open.now.count)};
    change.invariance = {millionths(count_of(open.base, change.value), open.base.count),
                         millionths(count_of(open.now, change.value), open.now.count)};
    change.error = kMillion * std::hypot(share_error(open.base), share_error(open.now));
  }
  return ranked(std::move(changes), [](const ValueChange& v) { return v.effect(); });
}

std::vector<LoadChange> compare_loads(const Side& base, const Side& now) {
  struct Open {
    LoadChange change;
    LatencyRow before;
    LatencyRow after;
    CodeRef at;
    const Side* side = nullptr;
  };
  std::map<PlaceKey, Open> all;
  for (const Side* side : {&base, &now}) {
    for (const LatencyRow& row : side->p.tables.latencies) {
      Open& o = all[side->key(row.at)];
      if (o.side != side) {
        o.side = side;
        o.at = row.at;
      }
      add_latencies(side == &base ? o.before : o.after, row);
    }
  }
  if (base.p.left_out.contains(kLatencyLayout.name))
    std::erase_if(all, [](const auto& row) { return row.second.before.executions == 0; });
  const auto misses = [](const LatencyRow& l) {
    return millionths(l.classes[static_cast<size_t>(LatencyClass::l3)] +
                          l.classes[static_cast<size_t>(LatencyClass::dram)],
                      l.timed);
  };
  const auto miss_error = [&](const LatencyRow& l) {
    const double p = static_cast<double>(misses(l)) / kMillion;
    const double n = std::max(1.0, l.observations());
    return kMillion * std::sqrt((p * (1 - p) + 1 / n) / n);
  };
  const auto lost = [](const Side& side, const LatencyRow& l) {
    const LatencyCalibration clock = side.p.run.host.latency.value_or(LatencyCalibration{});
    return side.scaled(as_count(l.lost_cycles(clock)));
  };
  const auto error = [](const Side& side, const LatencyRow& l) {
    return side.scaled_error(l.mean_error() * static_cast<double>(l.executions));
  };
  auto rows = [&] {
    for (auto& [key, o] : all) {
      LoadChange& c = o.change;
      c.executions = {base.scaled(o.before.executions), now.scaled(o.after.executions)};
      c.lost_cycles = {lost(base, o.before), lost(now, o.after)};
      c.misses = {misses(o.before), misses(o.after)};
      c.base_mean = o.before.mean();
      c.new_mean = o.after.mean();
      c.miss_error = std::hypot(miss_error(o.before), miss_error(o.after));
      c.error = std::hypot(error(base, o.before), error(now, o.after));
    }
    return ranked(std::move(all),
                  [](const Open& o) { return magnitude(o.change.lost_cycles.delta()); });
  }();
  std::vector<LoadChange> result;
  for (Open& o : rows) {
    o.change.at = o.side->place(o.at);
    result.push_back(std::move(o.change));
  }
  return result;
}

}  // namespace shadowprof::profile
