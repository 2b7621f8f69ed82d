// SPDX-License-Identifier: MIT
//
// From counts of runs and pairs to the profile's tables, for one address space.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "profile/file/canonical.h"
#include "profile/profile.h"
#include "trace/block_table.h"

namespace shadowprof::collect {

profile::EdgeKind edge_kind_of(trace::RunExit exit);

class TableBuilder {
 public:
  // Adds to `out`, which has no tables yet.
  TableBuilder(const trace::BlockTable& table, profile::Profile& out);

  // All blocks of a run that executed `count` times, and the edges that lie within it or that it
  // ends with.
  void add_run(const trace::Run& run, uint64_t count);
  void add_edge(const trace::Block& from, profile::CodeRef to, profile::EdgeKind kind,
                uint64_t count);
  void add_call(const trace::Block& from, profile::CodeRef callee, bool indirect, uint64_t count,
                uint64_t inclusive);
  void add_entry(profile::CodeRef callee, uint64_t invocations, uint64_t inclusive);

  profile::CodeRef at(const trace::Block& block) const { return at(block.start, block.module); }
  profile::CodeRef at(GuestAddr address, ModuleId module) const;
  // Where a direct branch leads. Code that was executed there says which module it is in; else the
  // modules' ranges do, and at equal addresses the branch's own module or the latest one.
  std::optional<profile::CodeRef> resolve(GuestAddr to, ModuleId own) const;

  // A place that was seen in memory, and perhaps not executed.
  std::optional<profile::CodeRef> locate(GuestAddr address) const;

  // After all runs: the block table.
  void finish_blocks(bool calls);

  uint64_t edges_without_module = 0;

 private:
  void add_edge(const trace::Block& from, GuestAddr to, profile::EdgeKind kind, uint64_t count);
  profile::Piece piece(const trace::Block& b, uint32_t executed, uint64_t count) const;

  const trace::BlockTable& table_;
  profile::Profile& out_;
  std::vector<uint32_t> modules_;  // index in out_.modules
  std::vector<uint64_t> whole_;    // full executions by block id
  std::vector<std::pair<uint64_t, uint32_t>> starts_;
  std::vector<profile::Piece> pieces_;
  std::vector<profile::CodeRef> leaders_;
};

}  // namespace shadowprof::collect
