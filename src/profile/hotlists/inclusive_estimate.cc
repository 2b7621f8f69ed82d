// SPDX-License-Identifier: MIT
#include "profile/hotlists/inclusive_estimate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "profile/hotlists/call_circle.h"

namespace shadowprof::profile {
namespace {

struct Call {
  size_t callee;
  double count;
};

// A thread begins with a call of it, which is none of the thread that has made it. Programs have
// functions of the shortest name, too.
bool begins_threads(const Profile& profile, const Function& f) {
  constexpr std::string_view kNames[] = {"__clone", "clone3", "__clone3"};
  if (std::ranges::find(kNames, f.name) != std::end(kNames)) return true;
  const std::string& file = profile.modules[f.at.module].path;
  const std::string_view name = std::string_view(file).substr(file.rfind('/') + 1);
  return f.name == "clone" && (name.starts_with("libc.") || name.starts_with("libc-") ||
                               name.starts_with("libpthread") || name.starts_with("ld-musl"));
}

// It jumps to what it has found for who called it through a linkage stub, which is a call already.
bool resolves_names(const Function& f) {
  return std::string_view(f.name).starts_with("_dl_runtime_resolve");
}

class CallGraph {
 public:
  explicit CallGraph(const Profile& profile)
      : profile_(profile),
        calls_(profile.functions.size()),
        called_(calls_.size()),
        self_calls_(calls_.size()),
        tail_calls_(calls_.size()),
        costs_(calls_.size()) {
    Counts counts;
    for (const CallPair& c : profile.tables.calls) {
      const auto pair = between_functions(c.site, c.callee);
      if (pair && begins_threads(profile, profile.functions[pair->first])) continue;
      if (pair)
        counts[*pair] += static_cast<double>(c.count);
      else if (const auto f = index_of(c.callee); f && f == index_of(c.site))
        self_calls_[*f] += static_cast<double>(c.count);
    }
    add_jumps(counts);
    for (const auto& [pair, count] : counts) {
      calls_[pair.first].push_back({pair.second, count});
      called_[pair.second] += count;
    }
    find_circles();
  }

  // By function.
  std::vector<double> inclusive() {
    std::vector<double> result(calls_.size());
    // Circles are numbered callees first.
    for (const std::vector<size_t>& circle : circles_) {
      if (circle.size() == 1 || !solve(circle, result)) share(circle, result);
    }
    return result;
  }
  uint64_t tail_calls(size_t function) const { return tail_calls_[function]; }

 private:
  using Counts = std::map<std::pair<size_t, size_t>, double>;

  std::optional<size_t> index_of(CodeRef at) const {
    const Function* f = find_function(profile_.functions, at);
    if (!f) return std::nullopt;
    return static_cast<size_t>(f - profile_.functions.data());
  }

  // Nothing: one of them is not known, or they are the same.
  std::optional<std::pair<size_t, size_t>> between_functions(CodeRef from, CodeRef to) const {
    const auto caller = index_of(from);
    const auto callee = index_of(to);
    if (!caller || !callee || *caller == *callee) return std::nullopt;
    return std::pair(*caller, *callee);
  }

  // A jump to where another function begins calls it, as a conditional one does. One to another
  // place is the way back from a part of the function that lies elsewhere, or from another stack;
  // but that part is entered so, and in no other way.
  void add_jumps(Counts& counts) {
    std::vector<bool> is_entered(calls_.size());
    for (const auto& [pair, count] : counts) is_entered[pair.second] = true;
    Counts to_elsewhere;
    for (const Edge& e : profile_.tables.edges) {
      if (!is_jump(e.kind)) continue;
      const auto pair = between_functions(e.from, e.to);
      if (!pair || is_linkage_stub(e.from)) continue;
      if (resolves_names(profile_.functions[pair->first])) continue;
      const bool is_start = e.to == profile_.functions[pair->second].at;
      (is_start ? counts : to_elsewhere)[*pair] += static_cast<double>(e.count);
      if (!is_start) continue;
      is_entered[pair->second] = true;
      tail_calls_[pair->second] += e.count;
    }
    for (const auto& [pair, count] : to_elsewhere)
      if (!is_entered[pair.second]) counts[pair] += count;
  }

  // Its own instructions, and those of what it calls outside of its circle.
  double cost_outside(size_t f) const {
    double cost = static_cast<double>(profile_.functions[f].self);
    for (const Call& c : calls_[f])
      if (circle_of_[c.callee] != circle_of_[f]) cost += c.count * costs_[c.callee];
    return cost;
  }

  // How often it was called, but by itself. The kernel calls signals' handlers and what threads
  // begin with.
  double times_called(size_t f) const {
    const auto invocations = static_cast<double>(profile_.functions[f].invocations);
    return std::max({1.0, called_[f], invocations - self_calls_[f]});
  }

  // False: it cannot be, and nothing was done.
  bool solve(const std::vector<size_t>& circle, std::vector<double>& inclusive) {
    std::map<size_t, size_t> place;
    for (size_t i = 0; i < circle.size(); i++) place.emplace(circle[i], i);
    std::vector<CircleCall> calls;
    std::vector<double> own;
    for (const size_t f : circle) {
      own.push_back(cost_outside(f) / times_called(f));
      for (const Call& c : calls_[f]) {
        if (circle_of_[c.callee] == circle_of_[f])
          calls.push_back({place.at(f), place.at(c.callee), c.count / times_called(f)});
      }
    }
    const auto costs = solve_call_circle(calls, own);
    if (!costs) return false;
    for (size_t i = 0; i < circle.size(); i++) {
      const size_t f = circle[i];
      costs_[f] = costs->of_call[i];
      inclusive[f] = times_called(f) * costs->of_call[i] / costs->calls_within[i];
    }
    return true;
  }

  // All of the circle have its figure, as has the one that is in none.
  void share(const std::vector<size_t>& circle, std::vector<double>& inclusive) {
    double all = 0, calls_within = 0, called = 0;
    for (const size_t f : circle) {
      all += cost_outside(f);
      called += called_[f];
      for (const Call& c : calls_[f])
        if (circle_of_[c.callee] == circle_of_[f]) calls_within += c.count;
    }
    const double from_outside = std::max(1.0, called - calls_within);
    for (const size_t f : circle) {
      inclusive[f] = all;
      costs_[f] = all / from_outside;
    }
  }

  // The call pairs have what a stub's callers call through it.
  bool is_linkage_stub(CodeRef at) const {
    const Function* f = find_function(profile_.functions, at);
    return f && f->name.ends_with("@plt");
  }

  // Tarjan's strongly connected components, without recursion: call chains are long.
  void find_circles() {
    const size_t n = calls_.size();
    constexpr size_t kNone = SIZE_MAX;
    std::vector<size_t> order(n, kNone), low(n), next(n, 0), open, path;
    circle_of_.assign(n, kNone);
    size_t visited = 0;
    for (size_t root = 0; root < n; root++) {
      if (order[root] != kNone) continue;
      path.push_back(root);
      while (!path.empty()) {
        const size_t f = path.back();
        if (order[f] == kNone) {
          order[f] = low[f] = visited++;
          open.push_back(f);
        }
        if (next[f] < calls_[f].size()) {
          const size_t callee = calls_[f][next[f]++].callee;
          if (order[callee] == kNone) {
            path.push_back(callee);
          } else if (circle_of_[callee] == kNone) {
            low[f] = std::min(low[f], order[callee]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[f]);
        if (low[f] != order[f]) continue;
        std::vector<size_t>& circle = circles_.emplace_back();
        do {
          circle.push_back(open.back());
          circle_of_[open.back()] = circles_.size() - 1;
          open.pop_back();
        } while (circle.back() != f);
      }
    }
  }

  const Profile& profile_;
  std::vector<std::vector<Call>> calls_;
  std::vector<double> called_;      // by others
  std::vector<double> self_calls_;  // by itself
  std::vector<uint64_t> tail_calls_;
  std::vector<std::vector<size_t>> circles_;
  std::vector<size_t> circle_of_;
  std::vector<double> costs_;  // of a call
};

uint64_t rounded(double instructions, uint64_t most) {
  if (!(instructions > 0)) return 0;
  return std::min(most, static_cast<uint64_t>(std::llround(std::min(instructions, 9e18))));
}

}  // namespace

void estimate_inclusive(Profile& profile) {
  CallGraph graph(profile);
  const std::vector<double> inclusive = graph.inclusive();
  const uint64_t all = profile.coverage.instructions_profiled;
  std::vector<double> calls_of(inclusive.size());
  const auto index_of = [&](CodeRef at) {
    const Function* f = find_function(profile.functions, at);
    return f ? static_cast<size_t>(f - profile.functions.data()) : inclusive.size();
  };
  for (const CallPair& c : profile.tables.calls) {
    if (const size_t f = index_of(c.callee); f < inclusive.size()) {
      calls_of[f] += static_cast<double>(c.count);
    }
  }
  for (CallPair& c : profile.tables.calls) {
    const size_t f = index_of(c.callee);
    if (f == inclusive.size() || calls_of[f] == 0) continue;
    const double times = calls_of[f] + static_cast<double>(graph.tail_calls(f));
    c.inclusive = rounded(inclusive[f] * static_cast<double>(c.count) / times, all);
  }
  for (size_t f = 0; f < inclusive.size(); f++) {
    Function& function = profile.functions[f];
    function.inclusive = std::max(function.self, rounded(inclusive[f], all));
    // Without calls its jumps are known already: each is an entry of another kind.
    if (calls_of[f] > 0) function.invocations += graph.tail_calls(f);
  }
  profile.run.options["inclusive"] = "estimated";
}

}  // namespace shadowprof::profile
