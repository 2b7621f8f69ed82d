// SPDX-License-Identifier: MIT
//
// The hot streams of all bursts, added up.
//
// Within a run a stream is the exact sequence of (instruction, line), since it is what can be
// prefetched or placed together: two lists that are walked by one loop are two streams. A cycle is
// turned so that its lowest line comes first, or each burst would begin it elsewhere. Streams are
// told apart by a hash of 64 bits of that.
//
// A row is the streams of one set of instructions (profile/tables/stream_table.h). Errors are those
// of a ratio over samples (profile/confidence.h): what a row has of the references of all bursts.
//
// Bounded: when there are kMostStreams or kMostRows, other streams are not told apart, and what
// would be another row is counted as pruned.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "collect/loads/access_plan.h"
#include "collect/streams/hot_streams.h"
#include "collect/table_builder.h"
#include "profile/confidence.h"
#include "profile/tables/stream_table.h"

namespace shadowprof::collect {

// A reference as a terminal of a grammar.
constexpr int kStreamSiteBits = 22;
static_assert(AccessPlans::kMostSites == (1u << kStreamSiteBits) - 1);
constexpr uint64_t stream_terminal(uint32_t site, uint64_t line) {
  return (line << kStreamSiteBits | site) & ~Sequitur::kRuleBit;
}
constexpr uint32_t site_of_terminal(uint64_t terminal) {
  return terminal & AccessPlans::kMostSites;
}
constexpr uint64_t line_of_terminal(uint64_t terminal) {
  return terminal >> kStreamSiteBits;
}

class StreamRows {
 public:
  static constexpr size_t kMostStreams = 200'000;
  static constexpr size_t kMostRows = 20'000;
  static constexpr size_t kMostRowsOfFile = 2'000;

  // A burst of so many references is over; `hot` has its streams, of `grammar`.
  void add_burst(const AccessPlans& plans, const Sequitur& grammar, const HotStreams& finder,
                 const std::vector<HotStream>& hot, uint64_t references);
  void end_observation();
  void finish(const AccessPlans& plans, const TableBuilder& builder, bool errors,
              profile::StreamTable& rows);

  profile::StreamCounts counts{.collected = true};

 private:
  struct Row {
    profile::StreamRow sums;
    std::vector<uint32_t> sites;
    std::vector<uint64_t> hottest;  // terminals
    uint64_t now = 0;               // heat in this observation
    profile::ErrorSum error;
  };
  static constexpr uint32_t kNoRow = ~0u;

  uint32_t row_of(const std::vector<uint64_t>& stream);
  uint32_t add(const AccessPlans& plans, const HotStream& stream);
  uint64_t heat_of(const std::vector<uint64_t>& references, uint64_t heat, Row& row);
  void count_lines(const Sequitur& grammar, const HotStreams& finder,
                   const std::vector<HotStream>& hot, const std::vector<uint32_t>& rows_of_hot);
  profile::StreamRow finished(const Row& row, const AccessPlans& plans, const TableBuilder& builder,
                              bool errors) const;

  std::vector<Row> rows_;
  std::map<std::vector<uint32_t>, uint32_t> by_sites_;
  std::unordered_map<uint64_t, uint64_t> streams_;  // by hash: their heat
  std::vector<uint32_t> touched_;
  uint64_t now_ = 0;  // references of this observation
  uint32_t observations_ = 0;
  profile::GroupSizes sizes_;  // of observations
};

}  // namespace shadowprof::collect
