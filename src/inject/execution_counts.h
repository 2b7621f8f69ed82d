// SPDX-License-Identifier: MIT
//
// How often everything has executed, where that is counted.
//
//   counters of slots  ──take()───────────▶ ┐
//   logs of pairs      ──take_log()───────▶ ├ by run, by pair, by thread ─▶ the profile
//   what no counter counts, as the engine  │
//   did it  ──ran(), branched()───────────▶ ┘
//
// Where the programs have a clock, it counts the same instructions: each once, and at the latest
// when its counter is taken.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "inject/guests.h"
#include "machine/virtual_clock.h"
#include "trace/block_table.h"
#include "trace/pair_count.h"
#include "trace/thread_counts.h"

namespace shadowprof::inject {

class ExecutionCounts {
 public:
  // `clock`: nullptr where there is none. Both outlive it.
  ExecutionCounts(const trace::BlockTable& table, machine::VirtualClock* clock)
      : table_(table), clock_(clock) {}

  // The thread has executed it, and it is in no counter.
  void ran(const GuestThread& t, RunId run);
  void branched(const GuestThread& t, RunId site, BlockId to);

  // All counters, or those of one thread, which is exact. They begin anew.
  void take(cache::AddressSpace& space, const Guests& guests);
  void take(GuestThread& t);
  // What the thread has logged, which is empty afterwards.
  using Pairs = std::map<std::pair<RunId, BlockId>, uint64_t>;
  Pairs take_log(GuestThread& t);

  // Whoever has executed something is known here before (ThreadCounts::seen).
  trace::ThreadCounts& threads() { return threads_; }
  const trace::ThreadCounts& threads() const { return threads_; }
  const std::vector<uint64_t>& runs() const { return runs_; }
  const std::vector<trace::PairCount>& pairs() const { return pairs_; }
  // Up to when counters were last taken.
  uint64_t instructions() const;

 private:
  void add(Tid thread, const emu::CounterOwner& owner, uint64_t count);
  void add_pair(const trace::PairCount& pair);
  void retire(RunId run);

  const trace::BlockTable& table_;
  machine::VirtualClock* clock_;
  std::vector<uint64_t> runs_;
  std::vector<trace::PairCount> pairs_;
  size_t different_pairs_ = 0;  // join_if_many
  trace::ThreadCounts threads_;
};

}  // namespace shadowprof::inject
