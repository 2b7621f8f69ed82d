// SPDX-License-Identifier: MIT
//
// Where loads are timed in windows only (--condition latency), and the collector of latencies is
// the one who tells the engine what code it has seen enough of (trace::RunMailbox).
//
//   record with timed loads ─▶ look() ─▶ first: counts as it is; after `warm_up` of them the code's
//                                  │     run is put into the mailbox
//                                  └───▶ window: stands for all that is not timed
//
// The engine hears late: what is timed until its answer counts as `first`, too.
#pragma once

#include <cstdint>

#include "base/reserved_array.h"
#include "trace/block_table.h"
#include "trace/run_mailbox.h"

namespace shadowprof::collect {

class LoadWindows {
 public:
  enum class Look : uint8_t { first, window };

  // A null mailbox: all is `first`. `keep_records`: others want a record of each execution.
  LoadWindows(const trace::BlockTable& table, trace::RunMailbox* mailbox, uint64_t warm_up,
              bool keep_records);

  void begin_chunk();
  // How many chunks have begun; what windows saw in one is taken for one window.
  uint64_t chunks() const { return chunks_; }
  Look look(RunId run, uint32_t first_block) {
    if (mailbox_ == nullptr) return Look::first;
    Seen& seen = seen_[first_block];
    if (seen.plain_run > run.value) return Look::window;
    if (++seen.looked >= warm_up_ && !seen.told) tell(run, seen);
    return Look::first;
  }
  // Has the engine left anything out?
  bool have_any() const { return is_told_; }

 private:
  struct Seen {
    uint32_t looked;
    uint32_t plain_run;  // of the translation without times; 0: none yet
    bool told;
  };
  void tell(RunId run, Seen& seen);

  const trace::BlockTable& table_;
  trace::RunMailbox* const mailbox_;
  const uint64_t warm_up_;
  const bool keep_records_;
  ReservedArray<Seen> seen_;  // by first block
  trace::AwaitedAnswers answers_;
  uint64_t chunks_ = 0;
  bool is_told_ = false;
};

}  // namespace shadowprof::collect
