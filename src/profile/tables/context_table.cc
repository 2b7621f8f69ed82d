// SPDX-License-Identifier: MIT
#include "profile/tables/context_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "profile/profile.h"

namespace shadowprof::profile {
namespace {

// A row takes about 30 bytes of the file, and nobody looks at so many.
constexpr size_t kMostContexts = 20'000;

constexpr const char* kLabels[kContextKinds] = {"", "[callers unknown]", "[deeper calls]",
                                                "[other contexts]"};

// A tree that grows by (parent, kind, place).
class Builder {
 public:
  uint32_t find_or_add(uint32_t parent, ContextKind kind, CodeRef at) {
    const auto [entry, added] =
        index_.try_emplace({parent, kind, at}, static_cast<uint32_t>(rows_.size()));
    if (added) rows_.push_back({parent, kind, at});
    return entry->second;
  }

  ContextMoves add(const ContextTable& contexts, const std::function<CodeRef(CodeRef)>& place) {
    ContextMoves where(contexts.size());
    for (size_t i = 0; i < contexts.size(); i++) {
      const ContextRow& row = contexts[i];
      const uint32_t parent = row.parent == kNoContext ? kNoContext : where[row.parent];
      const CodeRef at = row.kind == ContextKind::code ? place(row.at) : CodeRef{};
      where[i] = find_or_add(parent, row.kind, at);
      add_counts(where[i], row);
    }
    return where;
  }

  void add_counts(uint32_t index, const ContextRow& row, bool with_calls = true) {
    rows_[index].self += row.self;
    if (with_calls) rows_[index].calls += row.calls;
    rows_[index].error = added_error(rows_[index].error, row.error);
  }

  // In the order of the keys: each row's children stand together, and behind it. `moves` end there.
  ContextTable take(std::initializer_list<ContextMoves*> moves) {
    std::map<uint32_t, std::vector<uint32_t>> children;
    for (const auto& [key, index] : index_) children[std::get<0>(key)].push_back(index);
    ContextTable table;
    std::vector<uint32_t> where(rows_.size());
    std::vector<uint32_t> waiting(children[kNoContext].rbegin(), children[kNoContext].rend());
    while (!waiting.empty()) {
      const uint32_t from = waiting.back();
      waiting.pop_back();
      where[from] = static_cast<uint32_t>(table.size());
      ContextRow row = rows_[from];
      if (row.parent != kNoContext) row.parent = where[row.parent];
      table.push_back(row);
      const auto below = children.find(from);
      if (below != children.end())
        waiting.insert(waiting.end(), below->second.rbegin(), below->second.rend());
    }
    for (ContextMoves* moved : moves)
      for (uint32_t& row : *moved) row = where[row];
    return table;
  }

 private:
  ContextTable rows_;
  std::map<std::tuple<uint32_t, ContextKind, CodeRef>, uint32_t> index_;
};

ContextMoves unmoved(const ContextTable& contexts) {
  ContextMoves moves(contexts.size());
  std::iota(moves.begin(), moves.end(), uint32_t{0});
  return moves;
}

// As those of functions: how each row's share of the instructions differs from group to group.
void fill_errors(const ContextGroups& groups, uint32_t worth, ContextTable& contexts) {
  std::vector<ErrorSum> sums(contexts.size());
  std::vector<double> in_group(contexts.size());
  GroupSizes sizes;
  for (const ContextGroup& group : groups) {
    const GroupSize size{group.instructions, group.by_time};
    for (const ContextGroup::Entry& entry : group.entries)
      in_group[entry.row] += static_cast<double>(entry.instructions);
    for (const ContextGroup::Entry& entry : group.entries)
      if (const double n = std::exchange(in_group[entry.row], 0); n != 0)
        sums[entry.row].add(n, size);
    sizes.add(size);
  }
  if (sizes.all() == 0) return;
  for (size_t i = 0; i < contexts.size(); i++)
    contexts[i].error =
        sums[i].error(worth, sizes, static_cast<double>(contexts[i].self) / sizes.all());
}

}  // namespace

const char* context_label(ContextKind kind) {
  return kLabels[static_cast<size_t>(kind) % kContextKinds];
}

ContextMoves regroup_contexts(ContextTable& contexts,
                              const std::function<CodeRef(CodeRef)>& place) {
  Builder builder;
  ContextMoves moves = builder.add(contexts, place);
  contexts = builder.take({&moves});
  return moves;
}

AddedContexts add_contexts(ContextTable& into, const ContextTable& from,
                           const std::vector<uint32_t>& module_in_into) {
  if (from.empty()) return {unmoved(into), {}};
  Builder builder;
  AddedContexts moves;
  moves.into = builder.add(into, [](CodeRef at) { return at; });
  moves.from = builder.add(from, [&](CodeRef at) {
    return CodeRef{module_in_into[at.module], at.offset};
  });
  into = builder.take({&moves.into, &moves.from});
  return moves;
}

void move_groups(ContextGroups& groups, const ContextMoves& moves) {
  for (ContextGroup& group : groups)
    for (ContextGroup::Entry& entry : group.entries) entry.row = moves[entry.row];
}

std::vector<uint64_t> context_totals(const ContextTable& contexts) {
  std::vector<uint64_t> totals(contexts.size());
  for (size_t i = contexts.size(); i-- > 0;) {
    totals[i] += contexts[i].self;
    if (contexts[i].parent != kNoContext) totals[contexts[i].parent] += totals[i];
  }
  return totals;
}

// A row has at least what is below it, and stands before it: with a row its callers are kept.
ContextMoves keep_hottest_contexts(ContextTable& contexts, size_t most) {
  if (contexts.size() <= most) return unmoved(contexts);
  const std::vector<uint64_t> totals = context_totals(contexts);
  std::vector<uint32_t> order(contexts.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return totals[a] > totals[b]; });
  std::vector<bool> kept(contexts.size());
  for (size_t i = 0; i < most; i++) kept[order[i]] = true;
  Builder builder;
  ContextMoves where(contexts.size());
  for (size_t i = 0; i < contexts.size(); i++) {
    const ContextRow& row = contexts[i];
    const uint32_t parent = row.parent == kNoContext ? kNoContext : where[row.parent];
    if (kept[i]) {
      where[i] = builder.find_or_add(parent, row.kind, row.at);
    } else {
      const bool below_other = parent != kNoContext && !kept[row.parent];
      where[i] = below_other ? parent : builder.find_or_add(parent, ContextKind::other, {});
    }
    builder.add_counts(where[i], row, kept[i]);
  }
  contexts = builder.take({&where});
  return where;
}

std::vector<uint32_t> context_chain(const ContextTable& contexts, uint32_t row) {
  std::vector<uint32_t> chain;
  for (; row != kNoContext; row = contexts[row].parent) chain.push_back(row);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

ContextTable contexts_of_functions(const Profile& profile) {
  ContextTable table{{kNoContext, ContextKind::unknown, {}}};
  uint64_t rest = profile.coverage.instructions_profiled;
  for (const Function& f : profile.functions) {
    if (f.self == 0) continue;
    table.push_back({0, ContextKind::code, f.at, f.self, 0, f.self_error});
    rest -= f.self;
  }
  table[0].self = rest;
  return table;
}

void attribute_contexts(Profile& profile) {
  ContextTable& contexts = profile.tables.contexts;
  if (contexts.empty()) return;
  ContextGroups groups = std::move(profile.context_groups);
  profile.context_groups.clear();
  move_groups(groups, regroup_contexts(contexts, [&](CodeRef at) {
                const Function* f = find_function(profile.functions, at);
                return f == nullptr ? at : f->at;
              }));
  const std::vector<uint64_t> totals = context_totals(contexts);
  std::map<CodeRef, uint64_t> below;
  std::vector<uint32_t> depth(contexts.size());
  std::vector<CodeRef> path;  // of callers
  for (size_t i = 0; i < contexts.size(); i++) {
    const ContextRow& row = contexts[i];
    if (row.parent != kNoContext) depth[i] = depth[row.parent] + 1;
    path.resize(depth[i]);
    const bool outermost = std::find(path.begin(), path.end(), row.at) == path.end();
    const bool code = row.kind == ContextKind::code;
    path.push_back(code ? row.at : CodeRef{~uint32_t{0}, 0});
    if (code && outermost) below[row.at] += totals[i];
  }
  for (Function& f : profile.functions) {
    const auto known = below.find(f.at);
    if (known != below.end()) f.inclusive = std::max(f.inclusive, known->second);
  }
  move_groups(groups, keep_hottest_contexts(contexts, kMostContexts));
  if (!groups.empty()) fill_errors(groups, profile.confidence.groups, contexts);
}

}  // namespace shadowprof::profile
