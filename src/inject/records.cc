// SPDX-License-Identifier: MIT
#include "inject/records.h"

#include <fmt/format.h>

#include <utility>

namespace shadowprof::inject {

void Records::ran(GuestThread& t, RunId run) {
  traces.ran(t, run);
  if (counting()) executions.ran(t, run);
}

ExecutionCounts::Pairs Records::take_log(GuestThread& t) {
  counts.pair_logs++;
  return executions.take_log(t);
}

void Records::conclude(GuestThread& t, trace::EndReason reason) {
  if (std::exchange(t.concluded, true)) return;
  // A thread that dies without an exit event takes its cursor with it.
  if (t.in_engine && !t.executing && tracing()) {
    reason = trace::EndReason::killed;
    notes.add_unsupported(fmt::format("thread {}", t.tracee.tid().value),
                          "was killed: its last records are lost");
  }
  if (t.holding) t.slot->trap_all_calls(false);
  if (counting()) (void)take_log(t);
  traces.end(t, reason);
  traces.wait(t);
  uint64_t* of_thread = t.slot->syscall_counts();
  for (unsigned nr = 0; nr < 1024; nr++) {
    if (of_thread[nr] != 0) calls[nr] += std::exchange(of_thread[nr], 0);
  }
}

}  // namespace shadowprof::inject
