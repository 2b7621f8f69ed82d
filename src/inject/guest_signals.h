// SPDX-License-Identifier: MIT
//
// A thread's mask and its process's dispositions, as far as they must be known.
//
// Traps of ours in the cache are int3 and stores to guard pages: both are signals raised by
// force_sig, which unblocks the signal, and resets its disposition, if the program blocks or
// ignores it (kernel/signal.c force_sig_info_to_task). So the mask and the dispositions of those
// signals are tracked (GuestThread::blocked, GuestProcess::actions), and put back after such a
// trap.
#pragma once

#include "inject/guest_process.h"
#include "inject/guest_thread.h"

namespace shadowprof::inject {

// After a trap of ours: what force_sig has changed, if the program blocks or ignores the signal.
void repair_signal_state(GuestThread& t, int signal);
// The kernel's is what we know of it. False: the thread died, or the call failed.
bool set_action(GuestThread& t, int signal);

// A program begins: its actions are the default, but for signals that were ignored before.
void begin_actions(GuestProcess& process);

// Whether the thread blocks a signal that an instruction may raise.
inline bool blocks_raised(const GuestThread& t) {
  return (t.blocked & ptrace::kInstructionSignals) != 0;
}
// The thread's mask may have changed; it is stopped in guest context.
void note_mask(GuestThread& t);
// The gateway may have let through a call that has set it. It does so only while what instructions
// raise is blocked neither before nor behind that.
void refresh_mask(GuestThread& t);
// A trap of ours resets the handler of a signal that the thread blocks, and one that is ignored:
// what they were must be known before. Who has set them may have done so while nobody looked.
Status look_at_actions(GuestThread& t);

}  // namespace shadowprof::inject
