// SPDX-License-Identifier: MIT
//
// Waiting for traced threads. All functions see threads as well as processes (__WALL).
//
// A report that wait returned is used up: nobody else will see it. Code in this folder that waits
// on its own (RemoteSyscalls, launch) therefore takes stops only and leaves a death, an exit event
// and an exec event for the caller's own wait.
//
// Known traps of the kernel:
// - A process's first thread that has exited while others live on is reported only after those were
//   reaped: wait_for() on it blocks until then. wait_any() never has this trouble.
// - When a thread executes a program, its process's other threads die and the survivor appears
//   under the id of the process; the executing thread's former id is never reported again.
// - A new child's first stop may be reported before its parent's clone event.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "ptrace/wait_status.h"

namespace shadowprof::ptrace {

struct WaitOutcome {
  enum class Kind : uint8_t {
    status,       // tid and status say what happened
    interrupted,  // one of our own signal handlers ran (installed without SA_RESTART)
    nothing,      // non-blocking only: nothing to report now
    no_children,  // there is nobody to wait for (ECHILD)
  };
  Kind kind = Kind::nothing;
  Tid tid;
  WaitStatus status;

  bool has_status() const { return kind == Kind::status; }
};

enum class WaitMode : uint8_t { block, poll };

// `interrupted` cannot be relied on alone: a handler that runs just before the wait begins does not
// interrupt it. A handler that must be noticed also makes something happen to a tracee (calls
// Tracee::interrupt_if_alive, which is one system call), or the signals are blocked and awaited
// together with SIGCHLD while waiting is done with WaitMode::poll.
WaitOutcome wait_any(WaitMode mode = WaitMode::block);
WaitOutcome wait_for(Tid tid, WaitMode mode = WaitMode::block);

// Waits for the thread's next stop and uses it up. ESRCH if it does not stop any more but dies
// or becomes another program: then the report (exited, killed, exit event, exec event) is still
// there for the caller's own wait_any or wait_for. One exception: if SIGKILL strikes between our
// look and our taking of the report, an exit event may be used up; the death is not. ESRCH as well
// for a process's first thread that has ended while others live on: its report needs theirs first.
// Interruptions by our own handlers are waited over.
// With Patience::bounded EAGAIN for a thread that waits uninterruptibly (for a disk, for a child of
// vfork, in execve for the other threads to end): it stops when that is over. Also for one that
// stands in a stop of which somebody has taken the report, and will not report again.
// And ETIMEDOUT at `give_up_at`: it has not got a processor to stop on. Then, too, it stops later.
// Patience::watchful is endless for who has taken exit events of others and not let them go on.
enum class Patience : uint8_t { endless, watchful, bounded };
using Moment = std::chrono::steady_clock::time_point;
Result<WaitStatus> wait_for_stop(Tid tid, Patience patience = Patience::endless,
                                 Moment give_up_at = Moment::max());

// Waits for a thread that was resumed, until it has something to report or has ended. False: for
// some tens of milliseconds it has been asleep in the kernel, or waiting for something there.
bool await_report(Tid tid);

}  // namespace shadowprof::ptrace
