// SPDX-License-Identifier: MIT
#include "profile/hotlists/inclusive_estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace shadowprof::profile {
namespace {

struct Call {
  size_t callee;
  double count;
};

class CallGraph {
 public:
  explicit CallGraph(const Profile& profile) : profile_(profile), calls_(profile.functions.size()) {
    std::map<std::pair<size_t, size_t>, double> counts;
    const auto add = [&](CodeRef from, CodeRef to, uint64_t count) {
      const auto caller = index_of(from);
      const auto callee = index_of(to);
      if (caller && callee && *caller != *callee)
        counts[{*caller, *callee}] += static_cast<double>(count);
    };
    for (const CallPair& c : profile.tables.calls) add(c.site, c.callee, c.count);
    for (const Edge& e : profile.tables.edges) {
      if (e.kind != EdgeKind::jump && e.kind != EdgeKind::indirect_jump) continue;
      if (!is_linkage_stub(e.from)) add(e.from, e.to, e.count);
    }
    for (const auto& [pair, count] : counts) calls_[pair.first].push_back({pair.second, count});
    find_circles();
  }

  // By function.
  std::vector<double> inclusive() const {
    std::vector<double> into(circles_.size());  // calls from outside, by circle
    for (size_t f = 0; f < calls_.size(); f++) {
      for (const Call& c : calls_[f]) {
        if (circle_of_[c.callee] != circle_of_[f]) into[circle_of_[c.callee]] += c.count;
      }
    }
    // Circles are numbered callees first.
    std::vector<double> of_circle(circles_.size());
    for (size_t circle = 0; circle < circles_.size(); circle++) {
      for (size_t f : circles_[circle]) {
        of_circle[circle] += static_cast<double>(profile_.functions[f].self);
        for (const Call& c : calls_[f]) {
          const size_t other = circle_of_[c.callee];
          if (other != circle) of_circle[circle] += of_circle[other] * c.count / into[other];
        }
      }
    }
    std::vector<double> result(calls_.size());
    for (size_t f = 0; f < calls_.size(); f++) result[f] = of_circle[circle_of_[f]];
    return result;
  }

 private:
  std::optional<size_t> index_of(CodeRef at) const {
    const Function* f = find_function(profile_.functions, at);
    if (!f) return std::nullopt;
    return static_cast<size_t>(f - profile_.functions.data());
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
  std::vector<std::vector<size_t>> circles_;
  std::vector<size_t> circle_of_;
};

uint64_t rounded(double instructions, uint64_t most) {
  if (!(instructions > 0)) return 0;
  return std::min(most, static_cast<uint64_t>(std::llround(std::min(instructions, 9e18))));
}

}  // namespace

void estimate_inclusive(Profile& profile) {
  const std::vector<double> inclusive = CallGraph(profile).inclusive();
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
    c.inclusive = rounded(inclusive[f] * static_cast<double>(c.count) / calls_of[f], all);
  }
  for (size_t f = 0; f < inclusive.size(); f++) {
    profile.functions[f].inclusive = rounded(inclusive[f], all);
  }
  profile.run.options["inclusive"] = "estimated";
}

}  // namespace shadowprof::profile
