// SPDX-License-Identifier: MIT
#include "profile/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "profile/hidden_values.h"

namespace shadowprof::profile {
namespace {

constexpr double kHotPaths = 0.05;
constexpr double kMembers = 0.9 - 1e-9;  // sums of shares are rounded

// Gives the modules of both profiles numbers in common.
class ModuleNames {
 public:
  std::vector<uint32_t> number(const ModuleTable& modules) {
    std::vector<uint32_t> numbers;
    for (const Module& m : modules) {
      const std::string name = m.build_id.empty() ? "path " + m.path : "id " + m.build_id;
      numbers.push_back(
          known_.try_emplace(name, static_cast<uint32_t>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::map<std::string, uint32_t> known_;
};

struct Numbered {
  const Profile& profile;
  std::vector<uint32_t> modules;
  CodeRef at(CodeRef ref) const { return {modules[ref.module], ref.offset}; }
};

template <typename Key>
using Weights = std::map<Key, double>;

template <typename Key>
double total(const Weights<Key>& weights) {
  double sum = 0;
  for (const auto& [key, weight] : weights) sum += weight;
  return sum;
}

template <typename Key>
double weight_of(const Weights<Key>& weights, const Key& key) {
  const auto found = weights.find(key);
  return found == weights.end() ? 0 : found->second;
}

// Heaviest first; ties by key, so that equal profiles give equal lists.
template <typename Key>
std::vector<std::pair<Key, double>> ranked(const Weights<Key>& weights) {
  std::vector<std::pair<Key, double>> all(weights.begin(), weights.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

template <typename Key>
std::optional<double> overlap(const Weights<Key>& perfect, const Weights<Key>& sampled) {
  const double all_perfect = total(perfect), all_sampled = total(sampled);
  if (all_perfect == 0 || all_sampled == 0) return std::nullopt;
  double members = 0, common = 0;
  for (const auto& [key, weight] : ranked(perfect)) {
    if (members >= kMembers) break;
    const double share = weight / all_perfect;
    members += share;
    common += std::min(share, weight_of(sampled, key) / all_sampled);
  }
  return common / members;
}

using Path = std::vector<CodeRef>;

Weights<Path> path_weights(const Numbered& p) {
  Weights<Path> weights;
  for (const PathRow& row : p.profile.tables.paths) {
    Path path;
    for (const CodeRef block : row.blocks) path.push_back(p.at(block));
    weights[path] += static_cast<double>(row.count);
  }
  return weights;
}

std::optional<double> path_accuracy(const Numbered& perfect, const Numbered& sampled) {
  const auto actual = ranked(path_weights(perfect));
  const auto estimated = ranked(path_weights(sampled));
  if (actual.empty() || estimated.empty()) return std::nullopt;
  const auto distinct = static_cast<double>(
      std::max<uint64_t>(perfect.profile.coverage.paths.distinct, actual.size()));
  const auto wanted = std::max<size_t>(1, static_cast<size_t>(std::floor(distinct * kHotPaths)));
  std::set<Path> hot;
  for (size_t i = 0; i < std::min(wanted, estimated.size()); i++) hot.insert(estimated[i].first);
  double all = 0, found = 0;
  for (size_t i = 0; i < std::min(wanted, actual.size()); i++) {
    all += actual[i].second;
    if (hot.contains(actual[i].first)) found += actual[i].second;
  }
  return found / all;
}

std::optional<double> edge_accuracy(const Numbered& perfect, const Numbered& sampled) {
  using Key = std::tuple<CodeRef, CodeRef, EdgeKind>;
  const auto weights_of = [](const Numbered& p) {
    Weights<Key> weights;
    for (const Edge& e : p.profile.tables.edges)
      weights[{p.at(e.from), p.at(e.to), e.kind}] += static_cast<double>(e.count);
    return weights;
  };
  const Weights<Key> actual = weights_of(perfect), estimated = weights_of(sampled);
  const double all_actual = total(actual), all_estimated = total(estimated);
  if (all_actual == 0 || all_estimated == 0) return std::nullopt;
  double difference = 0;
  for (const auto& [key, weight] : actual)
    difference += std::abs(weight / all_actual - weight_of(estimated, key) / all_estimated);
  for (const auto& [key, weight] : estimated)
    if (!actual.contains(key)) difference += weight / all_estimated;
  return 1 - difference / 2;
}

std::optional<double> diff_top(const Numbered& perfect, const Numbered& sampled) {
  if (has_hidden_values(perfect.profile) || has_hidden_values(sampled.profile)) return std::nullopt;
  using Key = std::tuple<CodeRef, bool, CodeRef, ValuePart>;
  const auto key_of = [](const Numbered& p, const ValueRow& row) {
    return Key{p.at(row.at), row.has_context, row.has_context ? p.at(row.context) : CodeRef{},
               row.part};
  };
  std::map<Key, const ValueRow*> estimated;
  for (const ValueRow& row : sampled.profile.tables.values) estimated[key_of(sampled, row)] = &row;
  double weights = 0, differences = 0;
  for (const ValueRow& row : perfect.profile.tables.values) {
    const auto other = estimated.find(key_of(perfect, row));
    if (other == estimated.end() || row.figures.top.empty()) continue;
    double share = 0;
    for (const ValueCount& v : other->second->figures.top)
      if (v.value == row.figures.top[0].value)
        share = static_cast<double>(v.count) / static_cast<double>(other->second->figures.count);
    const auto weight = static_cast<double>(row.figures.count);
    weights += weight;
    differences += weight * std::abs(row.figures.invariance() - share);
  }
  if (weights == 0) return std::nullopt;
  return differences / weights;
}

Weights<std::tuple<CodeRef, CodeRef>> call_weights(const Numbered& p) {
  Weights<std::tuple<CodeRef, CodeRef>> weights;
  for (const CallPair& c : p.profile.tables.calls)
    weights[{p.at(c.site), p.at(c.callee)}] += static_cast<double>(c.count);
  return weights;
}

Weights<CodeRef> method_weights(const Numbered& p) {
  Weights<CodeRef> weights;
  for (const Function& f : p.profile.functions) weights[p.at(f.at)] += static_cast<double>(f.self);
  return weights;
}

bool at_other_addresses(const Numbered& perfect, const Numbered& sampled) {
  std::map<uint32_t, uint64_t> addresses;
  for (size_t i = 0; i < perfect.modules.size(); i++)
    addresses[perfect.modules[i]] = perfect.profile.modules[i].address;
  for (size_t i = 0; i < sampled.modules.size(); i++) {
    const auto known = addresses.find(sampled.modules[i]);
    if (known != addresses.end() && known->second != sampled.profile.modules[i].address)
      return true;
  }
  return false;
}

}  // namespace

Accuracy accuracy_of(const Profile& perfect_profile, const Profile& sampled_profile) {
  ModuleNames names;
  const Numbered perfect{perfect_profile, names.number(perfect_profile.modules)};
  const Numbered sampled{sampled_profile, names.number(sampled_profile.modules)};
  Accuracy a;
  a.paths = path_accuracy(perfect, sampled);
  a.edges = edge_accuracy(perfect, sampled);
  a.diff_top = diff_top(perfect, sampled);
  a.other_addresses = at_other_addresses(perfect, sampled);
  a.call_pairs = overlap(call_weights(perfect), call_weights(sampled));
  a.methods = overlap(method_weights(perfect), method_weights(sampled));
  const Coverage& whole = perfect_profile.coverage;
  if (whole.instructions_total != 0 && whole.ended_early.empty())
    a.coverage = static_cast<double>(sampled_profile.coverage.instructions_profiled) /
                 static_cast<double>(perfect_profile.coverage.instructions_total);
  return a;
}

}  // namespace shadowprof::profile
