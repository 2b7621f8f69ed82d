// SPDX-License-Identifier: MIT
//
// Counts of (kind, instruction, later instruction), and what becomes of them in a profile. Errors
// are those of a ratio over samples (profile/confidence.h): what a pair has of the executions of
// the instruction that it is judged by.
//
// Bounded: when there are kMostPairs, what would be another one is counted as pruned.
#pragma once

#include <cstdint>
#include <vector>

#include "base/spread.h"
#include "collect/loads/access_plan.h"
#include "collect/table_builder.h"
#include "profile/tables/access_pair_table.h"

namespace shadowprof::collect {

class AccessPairs {
 public:
  static constexpr size_t kMostPairs = size_t{1} << 20;

  explicit AccessPairs(size_t most = kMostPairs) : most_(most) { slots_.resize(kFirstSlots); }

  void add(profile::PairKind kind, uint32_t from, uint32_t to, uint64_t distance) {
    Pair* pair = find(key_of(kind, from, to));
    if (pair == nullptr) {
      pruned_++;
      return;
    }
    pair->count++;
    pair->distance += distance;
    if (pair->now++ == 0) touched_.push_back(pair->number);
  }

  // Within AccessPlans::end_observation().
  void end_observation(const AccessPlans& plans);
  // Pairs that were counted since, when errors are not asked for.
  void forget_touched() { touched_.clear(); }

  uint64_t pruned() const { return pruned_; }
  // Appends the `most` most frequent ones to `rows`. The plans' sites have been counted.
  void finish(const AccessPlans& plans, const TableBuilder& builder, size_t most,
              profile::AccessPairTable& rows);

 private:
  struct Pair {
    uint64_t key = 0;
    uint64_t count = 0;
    uint64_t distance = 0;
    double squares = 0;
    double products = 0;
    uint32_t now = 0;
    uint32_t number = 0;
  };
  static constexpr size_t kFirstSlots = size_t{1} << 12;
  static constexpr int kSiteBits = 22;

  // Never 0.
  static uint64_t key_of(profile::PairKind kind, uint32_t from, uint32_t to) {
    return (uint64_t{static_cast<uint8_t>(kind)} + 1) << 2 * kSiteBits |
           uint64_t{from} << kSiteBits | to;
  }
  static profile::PairKind kind_of(uint64_t key) {
    return static_cast<profile::PairKind>((key >> 2 * kSiteBits) - 1);
  }
  static uint32_t from_of(uint64_t key) { return key >> kSiteBits & AccessPlans::kMostSites; }
  static uint32_t to_of(uint64_t key) { return key & AccessPlans::kMostSites; }
  // The one whose executions the pair is a share of.
  static uint32_t judged_of(uint64_t key) {
    return kind_of(key) == profile::PairKind::dead_store ? from_of(key) : to_of(key);
  }
  size_t home(uint64_t key) const {
    return (spread(key) >> 32) & (slots_.size() - 1);
  }
  Pair* find(uint64_t key) {
    size_t i = home(key);
    while (slots_[i] != 0) {
      Pair& pair = pairs_[slots_[i] - 1];
      if (pair.key == key) return &pair;
      i = (i + 1) & (slots_.size() - 1);
    }
    return insert(key, i);
  }
  Pair* insert(uint64_t key, size_t slot);
  void grow();
  uint64_t error_of(const Pair& pair, const AccessPlans::Site& judged) const;

  const size_t most_;
  std::vector<uint32_t> slots_;  // number of a pair + 1; open addressing
  std::vector<Pair> pairs_;
  std::vector<uint32_t> touched_;
  uint64_t pruned_ = 0;
};

}  // namespace shadowprof::collect
