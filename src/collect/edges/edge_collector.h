// SPDX-License-Identifier: MIT
//
// Folds a trace into block, edge and call counts.
//
// While the program runs, almost nothing is computed: each record adds one to its run's cell, and
// only runs that end in a call, a return or an indirect branch need their successor. Blocks, direct
// edges and everything per address follow at finish() from what a run means (trace/block_table.h).
//
// A batch of records is read in passes, each of which has many independent memory accesses in
// flight and hardly a branch that depends on data:
//   1. count: cells[id].count++; note the records that need their successor
//   2. pair:  find the slot of (run, successor's first block) for the indirect ones
//   3. stack: push at calls, pop at returns
//
// The words come from memory that the profiled program can write to: every id is checked, and a bad
// one drops the rest of its chunk (counted).
#pragma once

#include <atomic>
#include <memory>

#include "collect/collector.h"
#include "collect/weights/sample_weights.h"

namespace shadowprof::collect {

struct EdgeCollectorOptions {
  bool calls = true;  // call pairs and entries with inclusive instructions; else edges alone
  bool errors = false;  // of counts, from how they differ between samples
  // Calling contexts, with `calls`. A sample that says no stack is a thread from its start, or
  // (`begins_anywhere`) one whose callers are not known.
  bool contexts = false;
  bool begins_anywhere = false;
  // Weights of what was sampled, known at finish(). Null: each sample counts as it is.
  const SampleWeights* weights = nullptr;
  // Grows by the instructions of each chunk that was read. Null: nobody asks.
  std::atomic<uint64_t>* so_far = nullptr;
};

class EdgeCollector final : public Collector {
 public:
  explicit EdgeCollector(const trace::BlockTable& table, EdgeCollectorOptions options = {});
  ~EdgeCollector() override;

  void consume(const trace::Chunk& chunk) override;
  // Adds to `into`: modules, tables, and the counts of coverage (samples, ended, profiled,
  // attributed, dropped, events). Does not set instructions_total.
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
