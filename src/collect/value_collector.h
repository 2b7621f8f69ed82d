// SPDX-License-Identifier: MIT
//
// Folds a trace with values (trace::SlotKind::value) into value and argument profiles.
//
// All that is known before execution is worked out once for each run, when its id first appears:
// which entry each of its slots belongs to, which bits of the slot are the result, what it leaves
// in the argument registers. So an event costs no look-up of its instruction. A value that is equal
// to the one before is counted in its entry and goes to the hotlist only when another one comes.
//
// Arguments: the integer argument registers at calls, as far as their contents are known from what
// was captured, and as far as they can be arguments: written since the last return in the thread,
// or passed on by the caller from its own caller. What is in floating-point registers is not in a
// trace, so there are no floating-point arguments.
//
// The words come from memory that the profiled program can write to: every id is checked, and a bad
// one drops the rest of its chunk (counted).
#pragma once

#include <memory>

#include "collect/collector.h"
#include "profile/value_table.h"

namespace shadowprof::collect {

// Which records of a trace are looked at (the profiling condition of values). What a run does in
// its first executions always is; after that, windows of `burst` records, one for every `every`
// records on average, at random distances. An event in a window stands for every / burst ones. With
// burst == every all records are looked at.
struct ValueCondition {
  uint64_t warm_up = 4096;  // executions of each run
  uint64_t burst = 16'384;
  uint64_t every = 16 * 16'384;
  bool all() const { return burst >= every; }
};

struct ValueCollectorOptions {
  profile::HotlistKind hotlist = profile::HotlistKind::counting_sample;
  uint32_t capacity = profile::ValueHotlist::kDefaultCapacity;
  uint64_t seed = 1;
  bool by_call_site = false;  // --value-context call; looks at all records
  ValueCondition condition;
};

class ValueCollector final : public Collector {
 public:
  explicit ValueCollector(const trace::BlockTable& table, ValueCollectorOptions options = {});
  ~ValueCollector() override;

  void consume(const trace::Chunk& chunk) override;
  // Adds to `into`: modules, the tables of values and arguments, events of coverage.
  void finish(profile::Profile& into) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shadowprof::collect
