// SPDX-License-Identifier: MIT
//
// How often a probe has counted each tuple of numbers. Bounded: when there are kMostTuples, what
// would be another one is counted as others. At most 8 MB a probe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collect/probes/probe.h"
#include "profile/confidence.h"

namespace shadowprof::collect {

class ProbeCounts {
 public:
  static constexpr size_t kMostTuples = size_t{1} << 16;
  using Tuple = std::array<uint64_t, Probe::kMostColumns>;
  struct Entry {
    Tuple tuple{};
    uint64_t count = 0;
    uint32_t now = 0;  // in this observation
    profile::ErrorSum errors{};
  };

  explicit ProbeCounts(size_t most = kMostTuples) : most_(most) { slots_.resize(kFirstSlots); }

  void add(const Tuple& tuple) {
    counted_++;
    counted_now_++;
    if (last_ < entries_.size() && entries_[last_].tuple == tuple) [[likely]]
      return add_to(last_);
    find(tuple);
  }

  // As an execution whose tuple has no room.
  void add_other() {
    counted_++;
    counted_now_++;
    others_++;
  }

  // What was counted since the last time is one observation.
  void end_observation();

  uint64_t counted() const { return counted_; }
  uint64_t others() const { return others_; }
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t error_of(const Entry& entry) const;

 private:
  static constexpr size_t kFirstSlots = 256;

  void add_to(uint32_t entry) {
    Entry& e = entries_[entry];
    e.count++;
    if (e.now++ == 0) touched_.push_back(entry);
    last_ = entry;
  }
  void find(const Tuple& tuple);
  void grow();
  size_t home(const Tuple& tuple) const;

  const size_t most_;
  std::vector<uint32_t> slots_;  // number of an entry + 1; open addressing
  std::vector<Entry> entries_;
  std::vector<uint32_t> touched_;
  uint32_t last_ = 0;
  uint32_t observations_ = 0;
  uint64_t counted_ = 0;
  uint64_t counted_now_ = 0;
  uint64_t others_ = 0;
  profile::GroupSizes sizes_;  // of what observations have counted
};

}  // namespace shadowprof::collect
