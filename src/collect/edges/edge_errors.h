// SPDX-License-Identifier: MIT
//
// Errors of edges and call pairs, and what functions' errors are made of, from how often each run
// was executed in each group of samples. What a run adds to the tables is noted while they are
// made; the tables are sorted and added up after that.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "collect/weights/group_counts.h"
#include "profile/profile.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

class TableBuilder;

class EdgeErrors {
 public:
  // `wanted`: else nothing is noted.
  EdgeErrors(const profile::Tables& tables, bool wanted) : tables_(tables), wanted_(wanted) {}

  // Numbers of what is counted: runs, and pairs of a run and its successor.
  static uint32_t run_source(uint32_t run) { return 2 * run; }
  static uint32_t pair_source(uint32_t pair) { return 2 * pair + 1; }

  // What follows belongs to this source until the next one begins.
  void begin(uint32_t source);
  void end();
  // The tables are complete, but not sorted yet.
  void keep_order();
  // Fills the errors of `out`, whose tables are sorted, and its groups.
  void fill(const std::vector<GroupCounts::Group>& groups, const trace::BlockTable& table,
            const TableBuilder& builder, profile::Profile& out) const;

 private:
  struct Rows {
    size_t first_edge, end_edge;
    size_t first_call, end_call;
  };

  const profile::Tables& tables_;
  const bool wanted_;
  std::unordered_map<uint32_t, Rows> rows_;
  Rows* open_ = nullptr;  // elements of rows_ do not move
  profile::EdgeTable edges_;
  profile::CallTable calls_;
};

}  // namespace shadowprof::collect
