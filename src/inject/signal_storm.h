// SPDX-License-Identifier: MIT
//
// Forward progress when signals come faster than we deliver them.
//
// Delivering a signal takes us a few ptrace stops, while another process sends the next one in a
// microsecond. Then one is pending whenever a handler returns, the kernel delivers it at once, and
// the program never executes an instruction of its own. So a thread that was interrupted again and
// again in the same place runs for a moment after its handler has returned, with what others send
// kept back; and so does one that is sent what the program ignores, which stops it, too:
//
//   - It stays in the kernel's queues, complete and in order; only the thread's mask changes.
//   - The program cannot see the mask, nor sleep under it: every system call comes to us meanwhile,
//     enters the kernel, and has the program's own mask before its work begins. What is pending
//     then interrupts it as if it had been sent just now. So a call, too, is progress.
//   - Without a call, the moment ends when the thread has executed something, by an interrupt.
//
// That is decided by real time, so it must not be where threads take turns: nobody sends while the
// thread has its turn but those outside of the program. What its own threads have sent has an end.
//
// ptrace/forward_progress.h is the same for threads that run natively.
#pragma once

#include <csignal>

#include "inject/guests.h"

namespace shadowprof::inject {

// Nobody of the program has sent it. Children are as many as the program makes.
bool is_from_outside(const siginfo_t& info, const Guests& guests);

// A signal that somebody sent is about to get its handler, and `regs` are the guest's; or it is
// ignored, and they are those with which the thread goes on.
void note_interruption(GuestThread& t, const ptrace::Registers& regs);

// What others send is kept back from here on, and all system calls come to us. False: it is gone.
bool begin_hold(GuestThread& t);
void end_hold(GuestThread& t);

}  // namespace shadowprof::inject
