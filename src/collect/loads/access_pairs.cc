// SPDX-License-Identifier: MIT
#include "collect/loads/access_pairs.h"

#include <algorithm>
#include <cmath>

namespace shadowprof::collect {

static_assert(AccessPlans::kMostSites == (1u << 22) - 1, "sites fit into a key");

AccessPairs::Pair* AccessPairs::insert(uint64_t key, size_t slot) {
  if (pairs_.size() >= most_) return nullptr;
  pairs_.push_back({.key = key, .number = static_cast<uint32_t>(pairs_.size())});
  slots_[slot] = static_cast<uint32_t>(pairs_.size());
  if (pairs_.size() * 2 > slots_.size()) grow();
  return &pairs_.back();
}

void AccessPairs::grow() {
  slots_.assign(slots_.size() * 4, 0);
  for (const Pair& pair : pairs_) {
    size_t i = home(pair.key);
    while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = pair.number + 1;
  }
}

void AccessPairs::end_observation(const AccessPlans& plans) {
  for (const uint32_t p : touched_) {
    Pair& pair = pairs_[p];
    const auto now = static_cast<double>(pair.now);
    pair.squares += now * now;
    pair.products += now * static_cast<double>(plans.site(judged_of(pair.key)).now);
    pair.now = 0;
  }
  touched_.clear();
}

// One sample tells nothing: the whole of the executions.
uint64_t AccessPairs::error_of(const Pair& pair, const AccessPlans::Site& judged) const {
  if (judged.observations < 2 || judged.executions == 0) return judged.executions;
  const double share = static_cast<double>(pair.count) / static_cast<double>(judged.executions);
  const double residuals =
      pair.squares - 2 * share * pair.products + share * share * judged.squares;
  const double factor = static_cast<double>(judged.observations) / (judged.observations - 1);
  const double error = std::sqrt(std::max(0.0, residuals) * factor);
  return static_cast<uint64_t>(std::llround(profile::error_of_few(judged.observations, error)));
}

void AccessPairs::finish(const AccessPlans& plans, const TableBuilder& builder, size_t most,
                         profile::AccessPairTable& rows) {
  std::sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) {
    return a.count != b.count ? a.count > b.count : a.key < b.key;
  });
  for (const Pair& pair : pairs_) {
    const auto &from = plans.site(from_of(pair.key)), &to = plans.site(to_of(pair.key));
    if (rows.size() >= most || from_of(pair.key) == 0 || to_of(pair.key) == 0) {
      pruned_ += pair.count;
      continue;
    }
    const AccessPlans::Site& judged = plans.site(judged_of(pair.key));
    profile::AccessPairRow row;
    row.kind = kind_of(pair.key);
    row.from = builder.at(from.address, from.module);
    row.to = builder.at(to.address, to.module);
    row.count = pair.count;
    row.executions = judged.executions;
    if (row.kind == profile::PairKind::dead_store) row.unknown = judged.unknown;
    row.distance = pair.distance;
    if (plans.keeps_errors()) row.error = error_of(pair, judged);
    if (profile::is_pair(row.kind)) row.from_text = plans.text_of(from);
    row.to_text = plans.text_of(to);
    rows.push_back(std::move(row));
  }
}

}  // namespace shadowprof::collect
