// SPDX-License-Identifier: MIT
//
// Interrupting a thread (Tracee::interrupt) must not be visible to the program. Most blocking
// system calls restart by themselves when no handler ran. Some give up with EINTR instead
// (signal(7), "Interruption of system calls and library functions by stop signals"): epoll_wait,
// semtimedop, rt_sigtimedwait, sockets with a timeout, and a few more.
#pragma once

#include "machine/registers.h"

namespace shadowprof::ptrace {

// For the registers of a thread that stands at StopEvent::stop because of our interrupt. If a
// system call came back with EINTR which would have gone on sleeping otherwise, changes rax so that
// the kernel restarts it when the thread is resumed (from this stop: or any other inside the
// kernel's signal code), unless a handler runs first: then the program sees EINTR as without us.
// True if changed; the caller sets the registers.
//
// Only calls that certainly did nothing yet when they say EINTR are restarted; close, for example,
// has closed. Not undone: a relative timeout starts anew, so interrupt blocked threads sparingly.
bool conceal_interruption(machine::Registers& registers);

}  // namespace shadowprof::ptrace
