// SPDX-License-Identifier: MIT
//
// Folds a trace with values (trace::SlotKind::value, vector, mask) into value and argument
// profiles.
//
// Not everything has to be looked at, and where it is not, executions are counted all the same. Two
// ways (CaptureCondition): the engine captures all values, and the collector opens windows in the
// trace; or, which costs the engine less, the collector tells it which code it has seen enough of
// (trace::RunMailbox), and the engine captures that now and then only. Runs that capture nothing
// (trace::Run::captures) then say that it has heard.
//
// All that is known before execution is worked out once for each run, when its id first appears:
// which entry each of its slots belongs to, which bits of the slot are the result, what it leaves
// in the argument registers. So an event costs no look-up of its instruction. A value that is equal
// to the one before is counted in its entry and goes to the hotlist only when another one comes.
//
// Arguments: the integer argument registers at calls, and the low halves of xmm0 to xmm3, which the
// called function reads before it writes them (callee_arguments.h). As far as their contents are
// known from what was captured, and as far as they can be arguments: written since the last return
// in the thread, or passed on by the caller from its own caller. They stand for all calls from
// there. What goes through a linkage stub is an argument of the function behind it.
//
// The words come from memory that the profiled program can write to: every id is checked, and a bad
// one drops the rest of its chunk (counted).
#pragma once

#include <memory>
#include <vector>

#include "collect/capture_condition.h"
#include "collect/collector.h"
#include "profile/tables/value_table.h"
#include "trace/run_mailbox.h"

namespace shadowprof::collect {

// Which records of a trace are looked at is the condition. What a run does in its first executions
// always is; after that, what windows have seen stands for all other executions: windows of `burst`
// records at random distances, or with a mailbox those that the engine captures in, where `warm_up`
// counts the captured executions of each fragment. Rows of which not all was looked at say that
// they are estimated, and have an error from how windows differ (value_entry.cc).
struct ValueCollectorOptions {
  profile::HotlistKind hotlist = profile::HotlistKind::counting_sample;
  uint32_t capacity = profile::ValueHotlist::kDefaultCapacity;
  uint64_t seed = 1;
  bool by_call_site = false;  // --value-context call; looks at all records
  CaptureCondition condition;
  trace::RunMailbox* seen_enough = nullptr;  // read by the engine
  const ConditionChange* change = nullptr;   // where that is null, and the condition may change
  // By run id, when finish() is called. With it and a mailbox, code that was seen enough of is in
  // the trace while it is captured only, and where functions begin: calls have to be seen.
  const std::vector<uint64_t>* executions = nullptr;
  bool errors = false;  // of shares, from how they differ between samples
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
