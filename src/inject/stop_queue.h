// SPDX-License-Identifier: MIT
//
// The reports of all traced threads, in a fair order.
//
// wait(2) looks through the tracees in a fixed order and returns the first that has something to
// report. Threads that spin on a lock fill their trace buffers again and again, so they always have
// something; the thread that holds the lock, stopped at a jump to untranslated code, may never get
// its turn. So all that can be had without waiting is fetched before anything is handled, and what
// only asks for a drain comes after what keeps a thread from going on at all.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "ptrace/wait.h"

namespace shadowprof::inject {

class StopQueue {
 public:
  // The next report to handle. Waits only when there is none. `alone`: there is only one thread,
  // so it is not worth looking for more than one.
  ptrace::WaitOutcome next(bool alone);

  // The same without waiting.
  ptrace::WaitOutcome poll();

  // Where threads take turns: what there is, without waiting; what somebody reports next, or
  // nothing, as one of our signal handlers has run; and one of the reports that were fetched.
  void fetch();
  ptrace::WaitOutcome::Kind await_any();
  std::optional<ptrace::WaitOutcome> take_if(
      const std::function<bool(const ptrace::WaitOutcome&)>& wanted);
  bool has_fetched(Tid tid) const;

  // Has the thread reported something that nobody has taken? Fetches what there is.
  bool has(Tid tid);

  // As ptrace::wait_for_stop, but takes a report of the thread that was fetched already.
  Result<ptrace::WaitStatus> wait_for_stop(Tid tid);

 private:
  using Queue = std::deque<ptrace::WaitOutcome>;

  ptrace::WaitOutcome take();
  void add(const ptrace::WaitOutcome& outcome);

  Queue urgent_;
  Queue faults_;  // signal stops for SIGSEGV: nearly always full trace buffers
  unsigned urgent_in_a_row_ = 0;
};

}  // namespace shadowprof::inject
