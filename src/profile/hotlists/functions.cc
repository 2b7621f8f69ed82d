// SPDX-License-Identifier: MIT
//
// Joins the tables with the names of functions.
#include <algorithm>
#include <map>
#include <tuple>

#include "profile/profile.h"

namespace shadowprof::profile {
namespace {

// What the function that starts at `start` may own: names that overlap are cut where the next one
// begins, so each place has at most one owner.
void cut_overlaps(FunctionTable& functions) {
  std::sort(functions.begin(), functions.end(), [](const Function& a, const Function& b) {
    return std::tuple(a.at, b.size, std::string_view(a.name)) <
           std::tuple(b.at, a.size, std::string_view(b.name));
  });
  const auto same_place = [](const Function& a, const Function& b) { return a.at == b.at; };
  functions.erase(std::unique(functions.begin(), functions.end(), same_place), functions.end());
  for (size_t i = 0; i + 1 < functions.size(); i++) {
    const Function& next = functions[i + 1];
    if (next.at.module == functions[i].at.module)
      functions[i].size = std::min(functions[i].size, next.at.offset - functions[i].at.offset);
  }
}

// Index of the function that contains `at`, or functions.size().
size_t index_of(const FunctionTable& functions, CodeRef at) {
  auto it = std::upper_bound(functions.begin(), functions.end(), at,
                             [](CodeRef a, const Function& f) { return a < f.at; });
  if (it == functions.begin()) return functions.size();
  --it;
  if (it->at.module != at.module || at.offset - it->at.offset >= it->size) return functions.size();
  return static_cast<size_t>(it - functions.begin());
}

// How each function's share of the instructions differs from group to group. `worth`: how many
// groups of one size they are worth.
void fill_errors(const SampleGroups& groups, uint32_t worth, FunctionTable& functions) {
  std::vector<ErrorSum> sums(functions.size() + 1);
  std::vector<double> in_group(functions.size() + 1);
  GroupSizes sizes;
  for (const SampleGroup& group : groups) {
    const GroupSize size{static_cast<double>(group.instructions), group.by_time};
    for (const GroupedCode& code : group.code)
      in_group[index_of(functions, code.at)] += static_cast<double>(code.instructions);
    for (size_t f = 0; f < in_group.size(); f++) {
      if (in_group[f] == 0) continue;
      sums[f].add(in_group[f], size);
      in_group[f] = 0;
    }
    sizes.add(size);
  }
  if (sizes.all() == 0) return;
  for (size_t f = 0; f < functions.size(); f++)
    functions[f].self_error =
        sums[f].error(worth, sizes, static_cast<double>(functions[f].self) / sizes.all());
}

// Code that was entered and is not the beginning of its function: by calls, as often as those, and
// otherwise where a sample began or something jumped, which is no invocation.
std::map<CodeRef, uint64_t> calls_into_the_middle(const Tables& t, const FunctionTable& names) {
  std::map<CodeRef, uint64_t> calls;
  for (const Entry& e : t.entries) {
    const size_t f = index_of(names, e.at);
    if (f != names.size() && names[f].at != e.at) calls[e.at] = 0;
  }
  for (const CallPair& c : t.calls)
    if (const auto called = calls.find(c.callee); called != calls.end()) called->second += c.count;
  return calls;
}

// A function that nothing calls is entered by a jump at the end of another one, or by the kernel: a
// signal's handler, a thread's first function. It is as often as its first block executes but for
// jumps of its own.
void count_other_entries(const Tables& t, FunctionTable& names) {
  for (size_t i = 0; i < names.size(); i++) {
    Function& f = names[i];
    if (f.invocations != 0) continue;
    const auto block = std::ranges::lower_bound(t.blocks, f.at, {}, &BlockCount::at);
    if (block == t.blocks.end() || block->at != f.at) continue;
    uint64_t own = 0;
    for (auto e = std::ranges::lower_bound(t.edges, f.at, {}, &Edge::from);
         e != t.edges.end() && index_of(names, e->from) == i; ++e)
      if (e->to == f.at) own += e->count;
    f.invocations = block->count - std::min(block->count, own);
  }
}

}  // namespace

const Function* find_function(const FunctionTable& functions, CodeRef at) {
  const size_t i = index_of(functions, at);
  return i == functions.size() ? nullptr : &functions[i];
}

void attribute_functions(Profile& profile, FunctionTable names) {
  std::erase_if(names, [](const Function& f) { return f.size == 0; });
  cut_overlaps(names);
  const Tables& t = profile.tables;
  for (Function& f : names) f.self = f.inclusive = f.invocations = f.loop_iterations = 0;
  for (Function& f : names) f.user_ns = f.kernel_ns = 0;
  for (const TimeRow& row : t.time) {
    const size_t f = index_of(names, row.at);
    if (f == names.size()) continue;
    names[f].user_ns += row.user_ns;
    names[f].kernel_ns += row.kernel_ns;
  }

  std::vector<size_t> owner(t.blocks.size());
  for (size_t i = 0; i < t.blocks.size(); i++) {
    owner[i] = index_of(names, t.blocks[i].at);
    if (owner[i] != names.size()) names[owner[i]].self += t.blocks[i].count * t.blocks[i].insns;
  }
  for (const Interruption& i : t.interruptions)
    if (owner[i.block] != names.size())
      names[owner[i.block]].self -= i.count * (t.blocks[i.block].insns - i.executed);

  // A function entered at several places may count nested activations twice: never more than all.
  const std::map<CodeRef, uint64_t> calls = calls_into_the_middle(t, names);
  for (const Entry& e : t.entries) {
    const size_t f = index_of(names, e.at);
    if (f == names.size()) continue;
    const auto called = calls.find(e.at);
    names[f].invocations += called == calls.end() ? e.invocations : called->second;
    names[f].inclusive =
        std::min(names[f].inclusive + e.inclusive, profile.coverage.instructions_profiled);
  }
  count_other_entries(t, names);
  for (const Edge& e : t.edges) {
    if (!is_jump(e.kind) || e.from.module != e.to.module || e.to.offset > e.from.offset) continue;
    const size_t f = index_of(names, e.from);
    if (f != names.size() && f == index_of(names, e.to)) names[f].loop_iterations += e.count;
  }
  if (!profile.groups.empty()) fill_errors(profile.groups, profile.confidence.groups, names);
  profile.groups.clear();
  profile.functions = std::move(names);
  attribute_contexts(profile);
  attribute_to_functions(profile);
  // What was reached by a jump has no activation of its own.
  for (Function& f : profile.functions) f.inclusive = std::max(f.inclusive, f.self);
  std::erase_if(profile.functions, [](const Function& f) {
    return f.self == 0 && f.invocations == 0 && f.inclusive == 0 && f.user_ns + f.kernel_ns == 0;
  });
}

}  // namespace shadowprof::profile
