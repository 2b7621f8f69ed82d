// SPDX-License-Identifier: MIT
#include "report/html_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/columns.h"
#include "report/diff_rows.h"
#include "report/html_assets.h"
#include "report/html_data.h"

namespace shadowprof::report {

using profile::Change;
using profile::Diff;
using profile::Place;

namespace {

constexpr size_t kLongestPlace = 400;  // columns
constexpr size_t kMostLineChanges = 3000;
constexpr size_t kMostPairChanges = 6000;
constexpr size_t kMostPathParts = 60;  // functions, and lines, of a path
// What has less of the instructions of both profiles cannot be seen, and not clicked.
constexpr double kLeastContextShare = 0.0005;
constexpr size_t kMostContextRows = 8000;

HtmlJson both(const Change& c) {
  return {c.base, c.now};
}

// JSON has no infinity.
HtmlJson noise_text(const Diff& diff, double error) {
  const double noise = noise_of(diff, error);
  return std::isfinite(noise) ? HtmlJson(std::round(noise)) : HtmlJson();
}

std::string code_place(const Place& p) {
  return page_text(point(p, kLongestPlace));
}

// Where the functions of the list stand in it, by number.
std::map<uint32_t, int> listed_functions(const Diff& diff, size_t rows) {
  std::map<uint32_t, int> index;
  for (const profile::FunctionChange* c : changed(diff.functions)) {
    if (index.size() >= rows) break;
    index.try_emplace(c->number, static_cast<int>(index.size()));
  }
  return index;
}

int index_in(const std::map<uint32_t, int>& index, uint32_t number) {
  const auto found = index.find(number);
  return found == index.end() ? -1 : found->second;
}

// Columns of functions and inlined functions.
template <typename Row>
HtmlJson named_change(const Diff& diff, const Row& c) {
  return {c.self.base,
          c.self.now,
          noise_text(diff, c.error),
          page_text(function_or_address(c.at)),
          page_text(c.at.function.empty() ? c.linkage_name : c.at.function),
          page_text(source(c.at)),
          page_text(module_name(c.at)),
          profile::to_string(c.presence)};
}

void append(HtmlJson& row, std::initializer_list<Change> changes) {
  for (const Change& c : changes) {
    row.push_back(c.base);
    row.push_back(c.now);
  }
}

HtmlJson change_row(const Diff& diff, const profile::FunctionChange& c) {
  HtmlJson row = named_change(diff, c);
  append(row, {c.inclusive, c.invocations, c.loop_iterations});
  row.push_back(c.reason.text.empty() ? "" : profile::to_string(c.reason.kind));
  row.push_back(page_text(c.reason.text));
  return row;
}

HtmlJson change_row(const Diff& diff, const profile::InlinedChange& c) {
  HtmlJson row = named_change(diff, c);
  append(row, {c.places});
  return row;
}

HtmlJson call_row(const Diff& diff, const profile::TransferChange& c) {
  HtmlJson row = {c.count.base,
                  c.count.now,
                  noise_text(diff, c.error),
                  code_place(c.from),
                  page_text(function_or_address(c.to)),
                  c.kind == profile::EdgeKind::indirect_call};
  append(row, {c.instructions});
  return row;
}

HtmlJson edge_row(const Diff& diff, const profile::TransferChange& c) {
  return {c.count.base,       c.count.now,      noise_text(diff, c.error),
          code_place(c.from), code_place(c.to), profile::to_string(c.kind)};
}

HtmlJson change_row(const Diff& diff, const profile::PathChange& c) {
  HtmlJson row = {c.instructions.base, c.instructions.now, noise_text(diff, c.error)};
  append(row, {c.count});
  row.push_back(c.blocks);
  HtmlJson functions = HtmlJson::array(), lines = HtmlJson::array();
  for (const Place& f : c.functions)
    if (functions.size() < kMostPathParts) functions.push_back(page_text(function_or_address(f)));
  for (const profile::SourceLine& l : c.lines)
    if (lines.size() < kMostPathParts)
      lines.push_back(fmt::format("{}:{}", page_text(file_name(l.file)), l.line));
  row.push_back(std::move(functions));
  row.push_back(std::move(lines));
  return row;
}

HtmlJson change_row(const Diff& diff, const profile::LoadChange& c) {
  HtmlJson row = {c.lost_cycles.base, c.lost_cycles.now, noise_text(diff, c.error),
                  code_place(c.at)};
  append(row, {c.executions});
  row.push_back(c.base_mean);
  row.push_back(c.new_mean);
  append(row, {c.misses});
  return row;
}

HtmlJson change_row(const Diff&, const profile::ValueChange& c) {
  HtmlJson row = HtmlJson::array();
  append(row, {c.executions, c.invariance});
  // As text: the script's numbers have 53 bits.
  row.push_back(profile::value_text(c.type, c.value));
  row.push_back(page_text(c.instruction));
  row.push_back(code_place(c.at));
  return row;
}

HtmlJson change_row(const Diff&, const profile::SyscallChange& c) {
  return {c.count.base, c.count.now, page_text(c.name)};
}

struct ListOfChanges {
  HtmlJson rows = HtmlJson::array();
  size_t all = 0;
};

template <typename Row, typename Make>
ListOfChanges list_of(const std::vector<Row>& all, size_t limit, Make make) {
  ListOfChanges list;
  const auto rows = changed(all);
  list.all = rows.size();
  for (size_t i = 0; i < std::min(limit, rows.size()); i++) list.rows.push_back(make(*rows[i]));
  return list;
}

// Each context with all below it: its figures, and the most that its error can be. Errors of what
// is not independent add up to their sum at most; and since both profiles are on one scale, what is
// below a context is off by as much as all the rest.
struct ContextSum {
  Change total;
  double error = 0;
};

std::vector<ContextSum> context_sums(const std::vector<profile::ContextChange>& rows) {
  std::vector<ContextSum> sums(rows.size());
  double all = 0;
  for (size_t i = rows.size(); i-- > 0;) {
    const profile::ContextChange& c = rows[i];
    sums[i].total.base += c.self.base;
    sums[i].total.now += c.self.now;
    sums[i].error += c.error;
    all += c.error;
    if (c.parent == profile::kNoContext) continue;
    ContextSum& above = sums[c.parent];
    above.total.base += sums[i].total.base;
    above.total.now += sums[i].total.now;
    above.error += sums[i].error;
  }
  for (ContextSum& sum : sums) sum.error = std::max(0.0, std::min(sum.error, all - sum.error));
  return sums;
}

// The names of contexts, each once, as far as rows use them.
class ContextNames {
 public:
  ContextNames(const Diff& diff, const std::map<uint32_t, int>& listed)
      : diff_(diff), listed_(listed) {}

  size_t index_of(const profile::ContextChange& c) {
    const bool code = c.kind == profile::ContextKind::code;
    const auto key = std::pair(c.kind, code ? c.function : 0);
    const auto [entry, added] = index_.try_emplace(key, names_.size());
    if (!added) return entry->second;
    if (code) {
      const auto& [number, place] = diff_.contexts.functions[c.function];
      names_.push_back(
          {page_text(function_or_address(place)),
           page_text(place.function.empty() ? function_or_address(place) : place.function),
           index_in(listed_, number)});
    } else {
      const std::string label = profile::context_label(c.kind);
      names_.push_back({label, label, -1});
    }
    return entry->second;
  }
  HtmlJson take() { return std::move(names_); }

 private:
  const Diff& diff_;
  const std::map<uint32_t, int>& listed_;
  std::map<std::pair<profile::ContextKind, uint32_t>, size_t> index_;
  HtmlJson names_ = HtmlJson::array();
};

HtmlJson side_of(const ComparedProfile& side, const std::string& incomplete) {
  HtmlJson json = page_summary(side.profile);
  json["file"] = page_text(side.file);
  json["incomplete"] = page_text(incomplete);
  json["contexts"] = !side.profile.tables.contexts.empty();
  json["overhead"].erase("timeline");
  return json;
}

}  // namespace

HtmlJson page_changes(const Diff& diff, const HtmlOptions& options) {
  HtmlJson lists, sizes;
  const auto add = [&](const char* name, ListOfChanges list) {
    lists[name] = std::move(list.rows);
    sizes[name] = list.all;
  };
  const auto row = [&](const auto& c) { return change_row(diff, c); };
  const auto listed = listed_functions(diff, options.rows);
  add("functions", list_of(diff.functions, options.rows, row));
  add("inlined", list_of(diff.inlined, options.rows, row));
  add("lines", list_of(diff.lines, kMostLineChanges, [&](const auto& c) -> HtmlJson {
        const Place at{"", 0, c.function, c.file, c.line};
        return {c.instructions.base, c.instructions.now, page_name(c.function),
                page_text(source(at)), index_in(listed, c.number)};
      }));
  add("calls",
      list_of(diff.call_pairs, options.rows, [&](const auto& c) { return call_row(diff, c); }));
  add("edges", list_of(diff.edges, options.rows, [&](const auto& c) { return edge_row(diff, c); }));
  add("paths", list_of(diff.paths, options.rows, row));
  add("loads", list_of(diff.loads, options.rows, row));
  add("values", list_of(diff.values, options.rows, row));
  add("syscalls", list_of(diff.syscall_names, options.rows, row));
  return {{"lists", std::move(lists)}, {"sizes", std::move(sizes)}};
}

HtmlJson page_pair_changes(const Diff& diff, const HtmlOptions& options) {
  struct Sum {
    Change count, instructions;
    bool computed = false;
  };
  const auto listed = listed_functions(diff, options.rows);
  std::map<std::pair<uint32_t, uint32_t>, Sum> sums;
  std::map<uint32_t, const Place*> others;
  for (const profile::TransferChange& c : diff.call_pairs) {
    if (!listed.contains(c.from_function) && !listed.contains(c.to_function)) continue;
    Sum& sum = sums[{c.from_function, c.to_function}];
    for (const auto& [into, from] :
         {std::pair(&sum.count, &c.count), std::pair(&sum.instructions, &c.instructions)}) {
      into->base += from->base;
      into->now += from->now;
    }
    sum.computed = sum.computed || c.kind == profile::EdgeKind::indirect_call;
    others.try_emplace(c.from_function, &c.from);
    others.try_emplace(c.to_function, &c.to);
  }
  HtmlJson rows = HtmlJson::array();
  const auto end = [&](uint32_t number) -> HtmlJson {
    if (const int i = index_in(listed, number); i >= 0) return i;
    if (number == profile::kNoFunction) return "";
    return page_name(others.at(number)->function);
  };
  for (const auto& [key, sum] : sums) {
    if (rows.size() >= kMostPairChanges) break;
    HtmlJson row = {end(key.first), end(key.second)};
    append(row, {sum.count, sum.instructions});
    row.push_back(sum.computed);
    rows.push_back(std::move(row));
  }
  return rows;
}

HtmlJson page_context_changes(const Diff& diff, const HtmlOptions& options) {
  const auto& all = diff.contexts.rows;
  const std::vector<ContextSum> sums = context_sums(all);
  Change whole;
  for (const profile::ContextChange& c : all) {
    whole.base += c.self.base;
    whole.now += c.self.now;
  }
  const auto share = [](uint64_t part, uint64_t of) {
    return static_cast<double>(part) / (static_cast<double>(of) + 1);
  };
  const auto listed = listed_functions(diff, options.rows);
  ContextNames names(diff, listed);
  HtmlJson rows = HtmlJson::array();
  std::vector<int> place(all.size(), -1);
  bool cut = false;
  for (size_t i = 0; i < all.size(); i++) {
    const profile::ContextChange& c = all[i];
    const Change& total = sums[i].total;
    const bool orphan = c.parent != profile::kNoContext && place[c.parent] < 0;
    if (orphan || rows.size() >= kMostContextRows ||
        std::max(share(total.base, whole.base), share(total.now, whole.now)) < kLeastContextShare) {
      cut = cut || total.base != 0 || total.now != 0;
      continue;
    }
    place[i] = static_cast<int>(rows.size());
    HtmlJson row = {c.parent == profile::kNoContext ? -1 : place[c.parent], names.index_of(c)};
    append(row, {total, c.self, c.calls});
    row.push_back(noise_text(diff, sums[i].error));
    row.push_back(noise_text(diff, c.error));
    rows.push_back(std::move(row));
  }
  return {{"names", names.take()}, {"rows", std::move(rows)}, {"all", both(whole)}, {"cut", cut}};
}

std::string render_html_diff(const Diff& diff, const ComparedProfile& base,
                             const ComparedProfile& now, const HtmlOptions& options) {
  HtmlJson json = {{"exact", diff.exact},
                   {"groups", diff.groups},
                   {"base", side_of(base, diff.base_incomplete)},
                   {"now", side_of(now, diff.new_incomplete)},
                   {"knows_totals", diff.knows_totals},
                   {"instructions", both(diff.instructions)},
                   {"calls", both(diff.calls)},
                   {"syscalls", both(diff.syscalls)},
                   {"has",
                    {{"paths", diff.has_paths},
                     {"values", diff.has_values},
                     {"loads", diff.has_loads},
                     {"inlined", diff.has_inlined},
                     {"lines", !diff.lines.empty()}}}};
  json.update(page_changes(diff, options));
  json["pairs"] = page_pair_changes(diff, options);
  json["contexts"] = page_context_changes(diff, options);
  return page_with(json, html::kDiff);
}

}  // namespace shadowprof::report
