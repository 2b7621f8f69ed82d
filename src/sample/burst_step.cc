// SPDX-License-Identifier: MIT
#include "sample/burst_step.h"

#include <cerrno>

namespace shadowprof::sample {

Status BurstStep::begin(shadow::Pause& paused) {
  SP_TRY(stepper_.begin_burst(paused.process(), paused.threads().front().tracee.tid()));
  std::erase_if(paused.threads(), [&](const shadow::PausedThread& thread) {
    return thread.stop.is_event(ptrace::StopEvent::stop) &&
           stepper_.admit(thread.tracee, thread.registers);
  });
  if (stepper_.is_over()) return fail_errno(EAGAIN, "no thread can be stepped");
  return {};
}

// Stops are waited for where a step is made: what comes here is the thread's end.
bool BurstStep::serve(Tid tid, const ptrace::WaitStatus& status) {
  if (status.is_stop()) {
    (void)ptrace::Tracee(tid).cont_if_alive();
  } else {
    stepper_.forget(tid);
  }
  return true;
}

BurstTotals BurstStep::totals() const {
  BurstTotals totals;
  totals.stops["step"] = stepper_.steps();
  return totals;
}

}  // namespace shadowprof::sample
