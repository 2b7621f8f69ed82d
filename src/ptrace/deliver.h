// SPDX-License-Identifier: MIT
//
// Giving a deferred signal back to the program, with its siginfo, exactly once.
//
// The kernel lets a tracer deliver a signal of its choice at a signal-delivery-stop only. Sending
// the signal again to get there is not the same: a second instance that is pending meanwhile would
// melt with it (standard signals do not queue), the siginfo would be ours, and it might be taken by
// another thread. So the thread is brought to a signal-delivery-stop by a carrier, a real-time
// signal of ours with a cookie in it, and the carrier is then exchanged for the signal.
#pragma once

#include <csignal>
#include <vector>

#include "base/result.h"
#include "ptrace/tracee.h"

namespace shadowprof::ptrace {

// Brings the stopped thread to a signal-delivery-stop which carries `info`: get_siginfo_if_alive
// gives it, and cont_if_alive(info.si_signo) delivers it by the program's disposition with the
// registers (pending restart included) as they are now; if the program blocks the signal, the
// kernel puts it into the thread's queue. No user instruction runs.
//
// Precondition: any ptrace stop but vfork, exit and seccomp events and syscall entry (CHECKed). At
// a stop inside sigsuspend and the like the call's temporary mask is dropped. At a
// signal-delivery-stop the signal that it is for must have been dealt with: it is replaced.
//
// Other signals stay in the kernel's queues and come after this one; only those that instructions
// can raise, if they were sent just now, turn up first and are appended to `deferred`. A signal
// that the program blocks is queued behind those of its number that came later: wait until it is
// unblocked where that order matters.
// If a group stop was passed, an interrupt is left pending, so that the thread reports it again
// (WaitStatus::is_trap) after it was resumed and before the handler's first instruction.
// Fails with ESRCH if the thread dies, EAGAIN if the user's signal queue is full
// (RLIMIT_SIGPENDING), EPERM if we may not signal it.
Status bring_to_signal_stop(Tracee tracee, const siginfo_t& info, std::vector<siginfo_t>& deferred);

// A step into a handler is reported as if it were for a SIGTRAP, but nothing can be delivered there
// (kernel/signal.c signal_setup_done, ptrace_notify).
inline bool is_step_into_handler(const siginfo_t& info) {
  return info.si_signo == SIGTRAP && info.si_code == SIGTRAP;
}

// Gives back all of them, in their order, after the one that the thread is stopped for (0: for
// none, or it has been dealt with). Preconditions as above. Returns the last one, with which the
// thread is to be resumed; for those before it the kernel has made frames, or has put them into the
// queue. What cannot be given back is lost only where the thread dies, or the kernel refuses a
// carrier.
Result<int> give_back(Tracee tracee, int stopped_for, std::vector<siginfo_t> deferred);

}  // namespace shadowprof::ptrace
